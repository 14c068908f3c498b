/**
 * dsh writes sessions: `node write.mjs SOURCE ROOT zstd|none` has live dsh sessions append what the logs of the plain
 * root SOURCE hold, kept by dsh's file backend under ROOT, and prints their ids.
 *
 * It exits without closing them, as a writer that dies does.
 */
import { Context } from '@deepseek-ai/cordis'
import sessions from '@deepseek-ai/dsh-session'
import files from '@deepseek-ai/dsh-session-persistence-jsonl'
import { openFiles } from './files.mjs'

const [source, root, compression] = process.argv.slice(2)
const read = await openFiles(source, 'none')
const context = new Context()
await context.plugin(sessions)
await context.plugin(files, { root, compression })

const ids = []
for (const header of await read.list()) {
  const { meta, events } = await read.readFrom(header.id, 0)
  const seed = meta.seedLength === undefined ? undefined : events.slice(0, meta.seedLength)
  const session = context.sessions.create(meta.id, { seed: seed && structuredClone(seed), meta })
  for (const { type, data, surfaceOp, sourceEventSeqs } of events.slice(session.events.length)) {
    const place = surfaceOp === undefined ? [] : [sourceEventSeqs === undefined ? { surfaceOp } : { surfaceOp, sourceEventSeqs }]
    session.append(type, structuredClone(data), ...structuredClone(place))
  }
  await context.sessions.flush(session)
  ids.push(meta.id)
}
process.stdout.write(JSON.stringify(ids), () => process.exit(0)) // exiting sooner would cut a long answer

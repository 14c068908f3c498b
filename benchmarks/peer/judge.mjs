/**
 * What dsh's own code makes of a root: `node judge.mjs ROOT zstd|none` prints a JSON array, one object per listed session.
 *
 * `inspected`   the event types that dsh's file loader gives, with the closers it adds in memory to an open tail
 * `nested`      whether dsh's grammar companion lets those events in
 * `restored`    the session that `Session.fromRestore` makes of the stored rows
 * `migrated`    the format-3 artifact that dsh's published migrations make of the stored rows
 *
 * Each of them is `{value}` or `{error}`.
 */
import { Context } from '@deepseek-ai/cordis'
import Invariants from '@deepseek-ai/dsh-invariants'
import sessions, { decodeStorageRecord, Session } from '@deepseek-ai/dsh-session'
import * as companion from '@deepseek-ai/dsh-session/invariant'
import { openFiles } from './files.mjs'
import { migrate } from './migrate.mjs'

async function attempt(act) {
  try {
    return { value: await act() }
  } catch (error) {
    return { error: String(error?.message ?? error) }
  }
}

/** A store whose sessions have to follow the grammar, from their seed on. */
async function openGrammar() {
  const context = new Context()
  await context.plugin(sessions)
  await context.plugin(Invariants)
  await context.plugin(companion)
  return context.sessions
}

function rowsOf(text) {
  const [first, ...rows] = text.split('\n').filter((line) => line !== '').map((line) => JSON.parse(line))
  return { first, rows }
}

function restore({ first, rows }) {
  const { type, ...header } = first
  const session = Session.fromRestore(header.id, rows.flatMap((row) => [...decodeStorageRecord(row)]), header)
  return {
    types: session.events.map((event) => event.type),
    nodes: session.surface.nodes,
    replaceGeneration: session.surface.replaceGeneration,
    messages: session.deriveMessages(),
  }
}

const files = await openFiles(process.argv[2], process.argv[3])
const grammar = await openGrammar()
const found = []
for (const { id } of await files.list()) {
  const raw = async () => rowsOf((await files.readRaw(id)).content)
  found.push({
    id,
    inspected: await attempt(async () => (await files.inspect(id)).events.map((event) => event.type)),
    nested: await attempt(async () => {
      const { meta, events } = await files.inspect(id)
      return grammar.create(id, { seed: events, meta }).events.length
    }),
    restored: await attempt(async () => restore(await raw())),
    migrated: await attempt(async () => migrate(await raw())),
  })
}
process.stdout.write(JSON.stringify(found), () => process.exit(0)) // exiting sooner would cut a long answer

/**
 * dsh keeping sessions: `node persist.mjs CASE live|files ROOT` prints one JSON line.
 *
 * CASE is `one` or `twenty` (events per barrier, one session) or `many` (200 sessions, 10 events each, all at once).
 * `live` is what a program does: append to live sessions, then wait until `sessions.flush` says they are durable.
 * `files` hands finished events to the file backend alone, whose `append` resolves when the batch is durable.
 */
import { Context } from '@deepseek-ai/cordis'
import sessions from '@deepseek-ai/dsh-session'
import files from '@deepseek-ai/dsh-session-persistence-jsonl'

const ROUNDS = { one: 400, twenty: 200, many: 5 }
const SIZE = { one: 1, twenty: 20, many: 10 }

const title = (number) => ({
  title: `an event of ordinary length, number ${number}`,
  messageSeqs: [],
  source: { kind: 'user' },
})

const batch = (from, count) =>
  Array.from({ length: count }, (_, index) => ({
    type: 'session/title',
    seq: from + index,
    time: 1_760_000_000_000 + from + index,
    data: title(from + index),
  }))

const [name, way, root] = process.argv.slice(2)
const context = new Context()
await context.plugin(sessions)
await context.plugin(files, { root, compression: 'none' })
const backend = context.sessionPersistence
const ids = Array.from({ length: name === 'many' ? 200 : 1 }, (_, index) => `bench-${index}`)

async function live() {
  const all = ids.map((id) => context.sessions.create(id, { meta: { cwd: '/bench' } }))
  return (from, count) => {
    for (const session of all)
      for (let number = from; number < from + count; number++) session.append('session/title', title(number))
    return Promise.all(all.map((session) => context.sessions.flush(session)))
  }
}

async function filesAlone() {
  for (const id of ids) await backend.create({ version: 0, id, createdAt: 1, cwd: '/bench', delegationDepth: 0 })
  return (from, count) => Promise.all(ids.map((id) => backend.append(id, batch(from, count))))
}

const write = await (way === 'live' ? live() : filesAlone())
await write(0, 1)
const times = []
let next = 1
for (let round = 0; round < ROUNDS[name]; round++) {
  const start = process.hrtime.bigint()
  await write(next, SIZE[name])
  times.push(Number(process.hrtime.bigint() - start) / 1e9)
  next += SIZE[name]
}
const stored = (await backend.list()).length
if (stored !== ids.length) throw new Error(`${stored} sessions are stored, not ${ids.length}`)
times.sort((a, b) => a - b)
const total = times.reduce((sum, one) => sum + one, 0)
const events = ROUNDS[name] * SIZE[name] * ids.length
console.log(JSON.stringify({ events, seconds: total, rate: events / total, median: times[times.length >> 1] }))
process.exit(0)

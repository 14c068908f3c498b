/**
 * dsh's file backend, written to: `node persist.mjs CASE ROOT` prints one JSON line.
 *
 * CASE is `one` or `twenty` (events per durable append, one session) or `many` (200 sessions, 10 events each, appended
 * at once). `append` resolves when the batch is durable.
 */
import { openFiles } from './files.mjs'

const ROUNDS = { one: 400, twenty: 200, many: 5 }
const SIZE = { one: 1, twenty: 20, many: 10 }

function batch(from, count) {
  return Array.from({ length: count }, (_, index) => ({
    type: 'session/title',
    seq: from + index,
    time: 1_760_000_000_000 + from + index,
    data: { title: `an event of ordinary length, number ${from + index}`, messageSeqs: [], source: { kind: 'user' } },
  }))
}

const [name, root] = process.argv.slice(2)
const files = await openFiles(root, 'none')
const ids = Array.from({ length: name === 'many' ? 200 : 1 }, (_, index) => `bench-${index}`)
for (const id of ids) {
  await files.create({ version: 0, id, createdAt: 1, cwd: '/bench', delegationDepth: 0 })
  await files.append(id, batch(0, 1))
}
const times = []
let next = 1
for (let round = 0; round < ROUNDS[name]; round++) {
  const start = process.hrtime.bigint()
  await Promise.all(ids.map((id) => files.append(id, batch(next, SIZE[name]))))
  times.push(Number(process.hrtime.bigint() - start) / 1e9)
  next += SIZE[name]
}
times.sort((a, b) => a - b)
const total = times.reduce((sum, one) => sum + one, 0)
const events = ROUNDS[name] * SIZE[name] * ids.length
console.log(JSON.stringify({ events, seconds: total, rate: events / total, median: times[times.length >> 1] }))
process.exit(0)

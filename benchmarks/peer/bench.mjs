/**
 * Time dsh's session package: `node bench.mjs CASE FILE [ROUNDS]` prints one JSON object.
 *
 *   load-packed, load-plain, load-zstd   file bytes -> restored Session
 *   append                               every event of FILE into an empty in-memory Session
 *   derive-first                         first deriveMessages() of a freshly restored Session
 *   derive-after-append                  deriveMessages() after one more message on a restored Session
 *
 * Seconds are the best and the median of the rounds. Garbage of earlier rounds is collected before
 * the clock starts, and results stay referenced until it has stopped.
 */
import { createRequire } from 'node:module'
import { basename } from 'node:path'
import { performance } from 'node:perf_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Session } from '@deepseek-ai/dsh-session'
import { readStored, restore } from './stored.mjs'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc')

/** Run `prepare` untimed and `act` on its result timed, `rounds` times. */
function measure(rounds, prepare, act) {
  const seconds = []
  for (let round = 0; round < rounds; round++) {
    const input = prepare()
    collectGarbage()
    const start = performance.now()
    const result = act(input)
    seconds.push((performance.now() - start) / 1000)
    if (result === undefined) throw new Error('a timed action must return what it built')
  }
  return seconds
}

/** Best and median of the rounds. */
function summarise(seconds) {
  const sorted = seconds.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const median = sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
  return { rounds: sorted.length, bestSeconds: sorted[0], medianSeconds: median }
}

/** {@link summarise} with the rate of the best round. */
function summariseEvents(seconds, events) {
  const figures = summarise(seconds)
  return { ...figures, eventsPerSecond: Math.round(events / figures.bestSeconds) }
}

/** Facts of a log that make two reports comparable. */
function describe({ events, lines }) {
  return { events: events.length, lines }
}

/** A packed figure measured on an unpacked file would flatter or slander; refuse the mix-up. */
function assertLayout(name, { events, lines }) {
  const packed = lines < events + 1
  if (name === 'load-packed' && !packed) throw new Error('load-packed: this file holds no packed rows')
  if (name === 'load-plain' && packed) throw new Error('load-plain: this file holds packed rows')
}

/** From file bytes to a restored session, everything timed. */
function load(name, file, rounds = 7) {
  const facts = describe(readStored(file))
  assertLayout(name, facts)
  const seconds = measure(rounds, () => file, path => restore(readStored(path)))
  return { ...facts, ...summariseEvents(seconds, facts.events) }
}

/** The append call that would have written `event`; its data is a private, unfrozen copy. */
function appendArguments(event) {
  if (event.surfaceOp === undefined) return [event.type, structuredClone(event.data)]
  const { surfaceOp, sourceEventSeqs } = event
  return [event.type, structuredClone(event.data), structuredClone({ surfaceOp, sourceEventSeqs })]
}

function appendAll(calls) {
  const session = Session.create('append')
  for (const call of calls) session.append(...call)
  return session
}

/** Append a whole log to a detached session: no store, no listeners, no nesting grammar. */
function append(_name, file, rounds = 7) {
  const stored = readStored(file)
  const seconds = measure(rounds, () => stored.events.map(appendArguments), appendAll)
  return { ...describe(stored), ...summariseEvents(seconds, stored.events.length) }
}

/** The first derivation after opening a log; each round restores the log anew. */
function deriveFirst(_name, file, rounds = 15) {
  const stored = readStored(file)
  const facts = { ...describe(stored), messages: restore(stored).deriveMessages().length }
  const seconds = measure(rounds, () => restore(readStored(file)), session => session.deriveMessages())
  return { ...facts, ...summarise(seconds) }
}

/** A user message as a host appends it. */
function userMessage(round) {
  const content = [{ type: 'text', text: 'and then?' }]
  return { content, source: { kind: 'user' }, role: 'user', id: `after-${round}` }
}

/** Deriving again after one appended message; the append itself is not timed. */
function deriveAfterAppend(_name, file, rounds = 500) {
  const stored = readStored(file)
  const session = restore(stored)
  const facts = { ...describe(stored), messages: session.deriveMessages().length }
  const seconds = []
  for (let round = 0; round < rounds; round++) {
    session.append('user/message', userMessage(round), { surfaceOp: 'append' })
    const start = performance.now()
    const messages = session.deriveMessages()
    seconds.push((performance.now() - start) / 1000)
    if (messages.length !== facts.messages + round + 1) throw new Error('the appended message was not derived')
  }
  return { ...facts, ...summarise(seconds) }
}

const CASES = {
  'load-packed': load,
  'load-plain': load,
  'load-zstd': load,
  'append': append,
  'derive-first': deriveFirst,
  'derive-after-append': deriveAfterAppend,
}

/** Versions beside the figures: a figure without them cannot be repeated. */
function versions() {
  const { version } = createRequire(import.meta.url)('@deepseek-ai/dsh-session/package.json')
  return { dshSession: version, node: process.versions.node }
}

const [name, file, rounds] = process.argv.slice(2)
if (!Object.hasOwn(CASES, name ?? '') || file === undefined) {
  console.error(`usage: bench.mjs CASE FILE [ROUNDS]; CASE is one of ${Object.keys(CASES).join(', ')}`)
  process.exit(2)
}
const figures = CASES[name](name, file, rounds === undefined ? undefined : Number(rounds))
console.log(JSON.stringify({ case: name, file: basename(file), ...figures, ...versions() }))

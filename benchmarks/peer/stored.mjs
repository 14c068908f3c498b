/**
 * Stored format-0 logs on dsh's side: from file bytes to a restored dsh `Session`.
 *
 * Only dsh's published session package does the work, so what it refuses here, dsh refuses too.
 */
import { readFileSync } from 'node:fs'
import { zstdDecompressSync } from 'node:zlib'
import { decodeStorageRecord, Session } from '@deepseek-ai/dsh-session'

/** Inflate every frame of a container; `zstdDecompressSync` alone stops after the first one. */
function inflateFrames(bytes) {
  const parts = []
  for (let rest = bytes; rest.length > 0;) {
    const { buffer, engine } = zstdDecompressSync(rest, { info: true })
    parts.push(buffer)
    rest = rest.subarray(engine.bytesWritten)
  }
  return Buffer.concat(parts)
}

/**
 * Read a log and expand its packed rows with dsh's checks. Every call returns fresh objects,
 * because `fromRestore` takes ownership of them and freezes them.
 */
export function readStored(file) {
  const bytes = readFileSync(file)
  const text = (file.endsWith('.zstd') ? inflateFrames(bytes) : bytes).toString('utf8')
  const lines = text.split('\n')
  if (lines.pop() !== '') throw new Error('the log does not end with a newline')
  const { type, ...header } = JSON.parse(lines[0])
  if (type !== 'session') throw new Error(`the first line is ${JSON.stringify(type)}, not a session header`)
  const events = []
  for (let i = 1; i < lines.length; i++) {
    for (const event of decodeStorageRecord(JSON.parse(lines[i]))) events.push(event)
  }
  return { header, events, lines: lines.length }
}

/** Hand what {@link readStored} returned to dsh, which validates and freezes it in place. */
export function restore({ header, events }) {
  return Session.fromRestore(header.id, events, header)
}

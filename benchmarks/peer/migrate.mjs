/**
 * dsh's published migrations, from format 0 to format 3: what newer dsh does when it opens an old session.
 *
 * They are installed as optional packages: {@link migrate} gives null without them. `-format-v1-to-v2` imports a class
 * that no published version of `@deepseek-ai/dsh-llm` has; `stream.mjs` stands in for it, there alone.
 */
import { registerHooks } from 'node:module'

registerHooks({
  resolve(specifier, context, next) {
    const missing = specifier === '@deepseek-ai/dsh-llm' && context.parentURL?.includes('dsh-session-format-v1-to-v2')
    return missing ? next('./stream.mjs', { ...context, parentURL: import.meta.url }) : next(specifier, context)
  },
})

const catalog = await load()

async function load() {
  let packages
  try {
    packages = await Promise.all(['', '-v0-to-v1', '-v1-to-v2', '-v2-to-v3'].map(
      (name) => import(`@deepseek-ai/dsh-session-format${name}`),
    ))
  } catch (error) {
    if (error.code === 'ERR_MODULE_NOT_FOUND') return null
    throw error
  }
  const [format, one, two, three] = packages
  const restoreCurrent = (artifact) => three.restoreReleasedV3Artifact(artifact, new Set())
  return format.createSessionFormatCatalog({
    currentVersion: 3,
    codecs: [
      one.releasedV0SessionFormatCodec,
      one.releasedV1SessionFormatCodec,
      two.releasedV2SessionFormatCodec,
      three.releasedV3SessionFormatCodec,
    ],
    currentEncoder: three.releasedV3SessionFormatCodec,
    migrations: [one.sessionFormatV0ToV1, two.sessionFormatV1ToV2, three.sessionFormatV2ToV3],
    restoreCurrent,
    restoreTransformedCurrent: restoreCurrent,
    restoreCurrentHeader: (header) => header,
  })
}

/** The messages of format-3 events, but for the system prompts, which format 0 keeps elsewhere. */
function derive(events) {
  let nodes = []
  for (const event of events) {
    const { surfaceOp } = event
    if (surfaceOp === undefined) continue
    const [first, last] = surfaceOp === 'append'
      ? [nodes.length, nodes.length]
      : [nodes.indexOf(surfaceOp.startSeq), nodes.indexOf(surfaceOp.endSeq) + 1]
    nodes = [...nodes.slice(0, first), event.seq, ...nodes.slice(last)]
  }
  return nodes
    .map((seq) => events[seq])
    .filter((event) => event.type !== 'system/message')
    .map((event) => (event.type === 'user/message' ? event.data : event.data.message))
    .filter((message) => message.role !== 'assistant' || message.content.length > 0)
}

/** Migrate the stored rows of one log; null when the packages are not there. */
export function migrate({ first, rows }) {
  if (catalog === null) return null
  const restoring = catalog.createRestore(first, { recovery: 'recoverable', validation: 'transformed' })
  for (const row of rows) restoring.decodeRow(row)
  const { header, events } = restoring.finish()
  return { version: header.version, types: events.map((event) => event.type), messages: derive(events) }
}

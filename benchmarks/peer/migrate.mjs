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

const packages = await load()

/** The packages and a catalog of formats 0 to 2, whose stages their common chain can join. */
async function load() {
  let found
  try {
    found = await Promise.all(['', '-v0-to-v1', '-v1-to-v2', '-v2-to-v3'].map(
      (name) => import(`@deepseek-ai/dsh-session-format${name}`),
    ))
  } catch (error) {
    if (error.code === 'ERR_MODULE_NOT_FOUND') return null
    throw error
  }
  const [format, one, two, three] = found
  const catalog = format.createSessionFormatCatalog({
    currentVersion: 2,
    codecs: [one.releasedV0SessionFormatCodec, one.releasedV1SessionFormatCodec, two.releasedV2SessionFormatCodec],
    currentEncoder: two.releasedV2SessionFormatCodec,
    migrations: [one.sessionFormatV0ToV1, two.sessionFormatV1ToV2],
    restoreCurrent: (artifact) => two.restoreReleasedV2Artifact(artifact, new Set()),
    restoreTransformedCurrent: (artifact) => two.restoreReleasedV2Artifact(artifact, new Set()),
    restoreCurrentHeader: (header) => header,
  })
  return { format, three, catalog }
}

/** Format 2 to format 3; this package was made for a later chain, so its stage is run by hand. */
function toThree({ header, inheritedEventCount, events }) {
  const { format, three } = packages
  const { migrateHeader, createStage, validateTargetHeader } = three.sessionFormatV2ToV3
  const target = migrateHeader(header)
  validateTargetHeader(target)
  const stage = createStage({
    sourceHeader: header,
    targetHeader: target,
    sourceInheritedEventCount: inheritedEventCount,
    sourceKind: 'transformed',
  })
  const output = new format.SessionFormatEventCollector()
  for (const event of events) stage.transformEvent(event, output)
  const artifact = { header: target, inheritedEventCount: stage.finish(output), events: output.values }
  return three.restoreReleasedV3Artifact(artifact, new Set())
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
  if (packages === null) return null
  const restoring = packages.catalog.createRestore(first, { recovery: 'recoverable', validation: 'transformed' })
  for (const row of rows) restoring.decodeRow(row)
  const { header, events } = toThree(restoring.finish())
  return { version: header.version, types: events.map((event) => event.type), messages: derive(events) }
}

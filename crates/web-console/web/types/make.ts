// Writes `src/api/schemas.ts`: types of the schemas of `openapi.json` that `src/api/shapes.ts` names, and of those that
// they refer to. All schemas would be ten times as much, and changes of unused ones would change the bundle's source.
// With --check it writes nothing, and fails if the file differs.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import openapiTS, { astToString, type SchemaObject } from 'openapi-typescript'

const API = join(import.meta.dirname, '../src/api')
const MADE = join(API, 'schemas.ts')

const document = JSON.parse(readFileSync(join(import.meta.dirname, '../../../../openapi.json'), 'utf8'))
const all: Record<string, SchemaObject> = document.components.schemas

const named = readFileSync(join(API, 'shapes.ts'), 'utf8').match(/(?<=\bSchemas\[')\w+/g) ?? []
const wanted = new Set<string>(named)
for (const name of wanted) {
  if (!all[name]) throw new Error(`src/api/shapes.ts names ${name}, of which openapi.json has no schema.`)
  for (const [, other] of JSON.stringify(all[name]).matchAll(/"#\/components\/schemas\/(\w+)"/g)) wanted.add(`${other}`)
}

const schemas = Object.fromEntries(Object.entries(all).filter(([name]) => wanted.has(name)))
const types = astToString(await openapiTS({ openapi: document.openapi, info: document.info, components: { schemas } }))
// Only `components` has content.
const components = types.slice(types.indexOf('export interface components'), types.indexOf('export type $defs'))
const made = `// Made of openapi.json by crates/web-console/build. Not to be changed by hand.\n\n${components}`

if (!process.argv.includes('--check')) writeFileSync(MADE, made)
else if (readFileSync(MADE, 'utf8') !== made) {
  console.error('crates/web-console/web/src/api/schemas.ts is not what openapi.json says: run crates/web-console/build')
  process.exitCode = 1
}

// The layers of the console. A file imports only from its own layer and from those before it; screens do not import each other.

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'

const SRC = join(import.meta.dirname, '../src')

/** The layers from the lowest to the highest: folders and files of `src/`. */
const LAYERS = ['api', 'texts.ts', 'kit', 'generic', 'resources', 'shared', 'screens', 'main.tsx', 'app.ts']

/** Declarations without code, and the messages that `texts.ts` reads. */
const WITHOUT_LAYER = ['vite.d.ts', '../texts/en-GB.json']

/** A static import, a re-export, an import for its effects and a dynamic import. */
const IMPORTS = /(?:\bfrom|\bimport)\s*\(?\s*(['"`])(.*?)\1/g

interface Import {
  from: string
  to: string
}

const layerOf = (path: string) => path.split('/')[0] ?? ''

/** A screen is a folder of `screens/`. */
const screenOf = (path: string) => path.split('/')[1] ?? ''

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((name) => /\.tsx?$/.test(name))

/** The imports of a file of this source tree, as paths below `src/`. */
function importsOf(from: string, source: string): Import[] {
  const specifiers = [...source.matchAll(IMPORTS)].map(([, , specifier = '']) => specifier)
  const relatives = specifiers.filter((specifier) => specifier.startsWith('.'))
  return relatives.map((specifier) => ({
    from,
    to: relative(SRC, join(SRC, dirname(from), specifier.replace(/\?.*/, ''))),
  }))
}

/** Returns the error of an import; undefined if it respects the layers. */
function violationOf({ from, to }: Import): string | undefined {
  if (WITHOUT_LAYER.includes(to)) return undefined
  const own = LAYERS.indexOf(layerOf(from))
  const other = LAYERS.indexOf(layerOf(to))
  if (own < 0 || other < 0) return `${from} imports ${to}: add the layer to LAYERS`
  if (other > own) return `${from} imports ${to}, which is in a higher layer`
  const isSideways = layerOf(from) === 'screens' && layerOf(to) === 'screens' && screenOf(from) !== screenOf(to)
  return isSideways ? `${from} imports ${to}: move what both screens use to shared/` : undefined
}

test('a file imports from its own layer and lower ones', () => {
  const imports = files.flatMap((name) => importsOf(name, readFileSync(join(SRC, name), 'utf8')))
  assert.ok(imports.length > 1000, `only ${imports.length} imports were read`)
  assert.deepEqual(
    imports.flatMap((each) => violationOf(each) ?? []),
    [],
  )
})

test('every file of the source has a layer', () => {
  const strays = files.filter((name) => !LAYERS.includes(layerOf(name)) && !WITHOUT_LAYER.includes(name))
  assert.deepEqual(strays, [])
  const outside = files.filter((name) => layerOf(name) === 'screens' && name.split('/').length < 3)
  assert.deepEqual(outside, [], 'a screen is a folder of screens/')
})

test('each kind of import is read', () => {
  const source = [
    "import { a } from '../kit/a.ts'",
    "import '../kit/b.css'",
    "export * from '../screens/home/c.ts'",
    "export {\n  type d,\n} from '../shared/d.ts'",
    "const e = () => import('../screens/home/e.tsx')",
    "import f from 'react'",
  ].join('\n')
  const imports = importsOf('generic/x.ts', source)
  assert.deepEqual(
    imports.map(({ to }) => to),
    ['kit/a.ts', 'kit/b.css', 'screens/home/c.ts', 'shared/d.ts', 'screens/home/e.tsx'],
  )
  assert.equal(imports.flatMap((each) => violationOf(each) ?? []).length, 3)
  assert.match(`${violationOf({ from: 'screens/home/a.ts', to: 'screens/me/b.ts' })}`, /move what both screens use/)
})

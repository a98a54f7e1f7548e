// The build of the bundle: names that never change, and one file for the code of others.

import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { compileStrings } from '@internationalized/string-compiler'
import { defineConfig, type Plugin } from 'vite'

const ROOT = import.meta.dirname
const DIST = join(ROOT, '../dist')

// The files of the first lists and of the home page.
const MAIN =
  /src\/(main|api\/(json|query|refusal|request|written)|generic\/(address|changes|editing|failure|filters|generic|go|limit|line-table|lines|list|neighbours|not-understood|pages-bar|relative|resource|right|save|search-box|settings|shape|ui-)|kit|shared\/(menu|not-found|recent-records)|screens\/frame\/frame|resources\/[a-z-]+\.ts|texts)|texts\/.*\?first|@internationalized\/string\//
const RECORDS = /src\/(screens\/records\/(records|export|related-columns)|shared\/records\/(class|shape))\./
const HOME = /src\/screens\/home\//

/** True if a text is part of a first list: its name is in the sources of these, or it names something of the API. */
function saidFirst(): (key: string) => boolean {
  const sources = files(join(ROOT, 'src')).filter((name) => /\.tsx?$/.test(name))
  const first = sources.filter((name) => [MAIN, RECORDS, HOME].some((group) => group.test(name)))
  const said = first.map((name) => readFileSync(join(ROOT, name), 'utf8')).join('\n')
  const names = new Set(said.match(/(?<=['"`])[\w.-]+(?=['"`])/g))
  const beginnings = said.match(/(?<=`)[a-z][\w.-]*[.-](?=\$\{)/g) ?? []
  return (key) =>
    names.has(key) ||
    /^(field|resource|action)\./.test(key) ||
    beginnings.some((beginning) => key.startsWith(beginning))
}

/**
 * Compiles the ICU messages of `texts/` to functions, so that no parser ships. `?first`: the texts of the first lists;
 * `?more`: all others.
 */
function texts(): Plugin {
  return {
    name: 'texts',
    enforce: 'pre',
    load(id) {
      const [file, query] = id.split('?')
      if (!file || (query !== 'first' && query !== 'more')) return null
      this.addWatchFile(file)
      const isFirst = saidFirst()
      const all = Object.entries<string>(JSON.parse(readFileSync(file, 'utf8')))
      const wanted = all.filter(([key]) => isFirst(key) === (query === 'first'))
      const compiled = compileStrings(Object.fromEntries(wanted), { format: 'esm' })
      return { code: compiled, moduleType: 'js' }
    },
  }
}

/** The kit brings its own texts in thirty languages; only those in which the console speaks ship. */
function languages(): Plugin {
  return {
    name: 'languages',
    enforce: 'pre',
    load(id) {
      const isLanguage = /react-(aria|stately)[^?]*\/intl\/.*\/(?!en-US)[a-z]{2}-[A-Z]{2}\.mjs$/.test(id)
      return isLanguage ? 'export default {}' : null
    },
  }
}

/**
 * The kit clears its announcements by an assignment that the policy `require-trusted-types-for` refuses, even for an
 * empty text.
 */
function trusted(): Plugin {
  const refused = ".innerHTML = ''"
  return {
    name: 'trusted',
    enforce: 'pre',
    transform(code, id) {
      if (!/react-aria\/dist\/private\/live-announcer\/LiveAnnouncer\.mjs$/.test(id)) return null
      if (!code.includes(refused)) this.error('The kit has no such assignment any more: this plugin can go.')
      return { code: code.replaceAll(refused, ".textContent = ''"), map: null }
    },
  }
}

/** The paths below a folder, except packages and names that begin with a dot. */
function files(folder: string): string[] {
  const entries = readdirSync(folder, { withFileTypes: true })
  const names = entries.filter(({ name }) => name !== 'node_modules' && !name.startsWith('.'))
  return names.flatMap((entry) =>
    entry.isDirectory() ? files(join(folder, entry.name)) : [relative(ROOT, join(folder, entry.name))],
  )
}

/** Records the source of a bundle. A test of the crate compares it with the files beside this one. */
function source(): Plugin {
  return {
    name: 'source',
    generateBundle() {
      const hash = createHash('sha256')
      for (const name of files(ROOT).toSorted()) {
        const content = readFileSync(join(ROOT, name))
        hash.update(`${name}\n${content.length}\n`).update(content)
      }
      this.emitFile({ type: 'asset', fileName: 'source.sha256', source: `${hash.digest('hex')}\n` })
    },
  }
}

export default defineConfig({
  base: './',
  plugins: [texts(), languages(), trusted(), source()],
  css: { transformer: 'lightningcss' },
  build: {
    outDir: process.env.DIST ?? DIST,
    emptyOutDir: true,
    target: 'es2023',
    cssCodeSplit: false,
    modulePreload: false,
    license: { fileName: 'licences.md' },
    rolldownOptions: {
      input: join(ROOT, 'src/app.ts'),
      // Modules of packages say "use client", which has no effect here.
      checks: { moduleLevelDirective: false },
      preserveEntrySignatures: 'allow-extension',
      output: {
        codeSplitting: {
          includeDependenciesRecursively: false,
          groups: [
            {
              name: 'vendor',
              test: (id: string) =>
                id.includes('rolldown/runtime') ||
                /node_modules\/(react|react-dom|scheduler|use-sync-external-store|@tanstack|seroval|seroval-plugins)\//.test(
                  id,
                ),
            },
            {
              name: 'moments',
              test: /node_modules\/@internationalized\/date\/|src\/kit\/(typed-date|written-dates)\.ts/,
            },
            {
              name: 'dates',
              test: /node_modules\/react-(aria|aria-components|stately)\/.*\/(datepicker|calendar|spinbutton|DatePicker|DateField|Calendar|HiddenDateInput|useDateFormatter)[/.]|src\/kit\/date-picker\.tsx/,
            },
            {
              name: 'kit',
              test: /node_modules\/(react-aria|react-aria-components|react-stately|@react-types|@internationalized\/number|aria-hidden)\/|src\/kit\/(fields|date-field|dialogs|popovers)\.tsx|src\/generic\/(input|form|filter-editor|reached)\.tsx/,
            },
            {
              name: 'records',
              test: RECORDS,
            },
            { name: 'qr', test: /node_modules\/qr\// },
            { name: 'home', test: HOME },
            {
              name: 'main',
              test: MAIN,
            },
          ],
        },
        entryFileNames: 'app.js',
        chunkFileNames: '[name].js',
        assetFileNames: ({ names }) => (names[0]?.endsWith('.css') ? 'app.css' : '[name][extname]'),
      },
    },
  },
  server: {
    port: 5173,
    proxy: { '^/(?!console/|src/|node_modules/|@|texts/)': process.env.CHANCERY ?? 'http://127.0.0.1:8000' },
  },
})

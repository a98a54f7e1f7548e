// The first part of an import: reads a file, and chooses its encoding and separator.

import { useParams } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { Reading } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import css from '../../kit/controls.module.css'
import { Select } from '../../kit/fields.tsx'
import { NotFound } from '../../shared/not-found.tsx'
import { type OpenClass, useClass } from '../../shared/records/class.ts'
import { type Key, t } from '../../texts.ts'
import { ENCODINGS, type Encoding, encodingOf, isBinary, textOf } from './encodings.ts'
import { type FileFlaw, isJson, readCsv, readJson, SEPARATORS, type Table } from './import-read.ts'
import { ImportRows } from './import-rows.tsx'
import look from './records.module.css'

/** Bytes; the file is read into memory. */
const LARGEST = 100_000_000

interface Source {
  name: string
  content: Uint8Array<ArrayBuffer>
}

export function Import() {
  const { alias } = useParams({ strict: false }) as { alias: string }
  const { openClass, isMissing, reading } = useClass(alias)
  if (isMissing) return <NotFound />
  return openClass ? <ImportInto key={alias} openClass={openClass} /> : <Reading of={reading} title={t('import')} />
}

function ImportInto({ openClass }: { openClass: OpenClass }) {
  const [source, setSource] = useState<Source | undefined>()
  const [encoding, setEncoding] = useState<Encoding>('utf-8')
  const [separator, setSeparator] = useState<string | undefined>()
  /** The reason why the file cannot be read. */
  const [refusal, setRefusal] = useState<Key | undefined>()
  /** Counts the files, which may have the same name. */
  const [count, setCount] = useState(0)
  const table = useMemo(() => {
    if (!source) return undefined
    const text = textOf(source.content, encoding)
    return isJson(text, source.name) ? readJson(text) : readCsv(text, separator)
  }, [source, encoding, separator])
  const readFile = async (file: File | undefined) => {
    if (!file) return
    const content = file.size > LARGEST ? undefined : new Uint8Array(await file.arrayBuffer())
    const isRead = content !== undefined && !isBinary(content)
    setRefusal(content === undefined ? 'import.too-large' : isRead ? undefined : 'import.binary')
    setSource(isRead ? { name: file.name, content } : undefined)
    setSeparator(undefined)
    setCount((before) => before + 1)
    if (isRead) setEncoding(encodingOf(content))
  }
  return (
    <>
      <nav className={generic.trail} aria-label={t('trail')}>
        <Link to={openClass.resource.route}>{openClass.name}</Link>
      </nav>
      <header className={generic.head}>
        <h1 tabIndex={-1}>{t('import.into', { name: openClass.name })}</h1>
      </header>
      <div className={generic.main}>
        <section className={look.step}>
          <h2>{t('import.file')}</h2>
          <p className={css.hint}>{t('import.hint')}</p>
          <label className={css.field}>
            <span className={css.label}>{t('import.choose')}</span>
            <input
              type="file"
              accept=".csv,.tsv,.txt,.ndjson,.jsonl,.json"
              onChange={(event) => void readFile(event.target.files?.[0])}
            />
          </label>
          {refusal && (
            <p className={css.error} role="alert">
              {t(refusal)}
            </p>
          )}
          {source && table && (
            <div className={look.choices}>
              <Select
                name="encoding"
                label={t('import.encoding')}
                hint={sampleHint(table)}
                isRequired
                value={encoding}
                choices={ENCODINGS.map((value) => ({ value, text: value.toUpperCase() }))}
                onChange={(value) => setEncoding(value as Encoding)}
              />
              {table.format === 'csv' && (
                <Select
                  name="separator"
                  label={t('import.separator')}
                  isRequired
                  value={table.separator}
                  choices={separators(table.separator)}
                  onChange={(value) => setSeparator(`${value}`)}
                />
              )}
            </div>
          )}
          {table?.flaw ? (
            <p className={css.error} role="alert">
              {flawText(table.flaw)}
            </p>
          ) : (
            table && <p role="status">{t('import.read', { rows: table.rows.length, columns: table.columns.length })}</p>
          )}
        </section>
        {source && table && !table.flaw && table.rows.length > 0 && (
          <ImportRows
            key={`${count} ${encoding} ${table.separator}`}
            openClass={openClass}
            table={table}
            name={source.name}
          />
        )}
      </div>
    </>
  )
}

const flawText = (flaw: FileFlaw) =>
  t(`import.flaw.file.${flaw.flaw}` as Key, flaw.flaw === 'quote' ? { line: flaw.line } : {})

/** The common separators, and the one that the file names. */
const separators = (own: string) =>
  [...new Set([...SEPARATORS, own])].map((value) => ({ value, text: value === '\t' ? t('import.tab') : value }))

/** Shows a few values with letters that depend on the encoding. */
function sampleHint({ columns, rows }: Table): string | undefined {
  const samples = new Set<string>()
  for (const cell of [...columns, ...rows.slice(0, 2000).flatMap(({ cells }) => cells)]) {
    if (typeof cell === 'string' && /[^\0-\x7f]/.test(cell)) samples.add(cell.trim().slice(0, 40))
    if (samples.size === 3) break
  }
  return samples.size > 0 ? t('import.encoding.sample', { samples: [...samples].join(' · ') }) : undefined
}

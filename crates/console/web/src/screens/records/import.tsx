// Records from a file: it is read here, every row is checked, and a thousand at a time are sent.

import { useParams } from '@tanstack/react-router'
import { useMemo, useRef, useState } from 'react'
import { wrote } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import type { Field } from '../../api/shapes.ts'
import { Failure, Reading } from '../../generic/failure.tsx'
import { Leaving } from '../../generic/form.tsx'
import generic from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import { saveAs } from '../../generic/save.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Select } from '../../kit/fields.tsx'
import { labelOf, t } from '../../texts.ts'
import { NotFound } from '../not-found.tsx'
import { type OpenClass, RECORDS, useClass } from './class.ts'
import {
  ENCODINGS,
  type Encoding,
  encodingOf,
  isJson,
  readCsv,
  readLines,
  SEPARATORS,
  type Table,
  textOf,
  written,
} from './import-read.ts'
import { type Outcome, prepare, send, type Trial } from './import-send.ts'
import { fieldFor, signOf } from './import-values.ts'
import look from './records.module.css'

/** What is read at once stays in memory. */
const LARGEST = 100_000_000
const SHOWN = 100

interface Source {
  name: string
  content: Uint8Array<ArrayBuffer>
}

export function Import() {
  const { alias } = useParams({ strict: false }) as { alias: string }
  const { found, isMissing, reading } = useClass(alias)
  if (isMissing) return <NotFound />
  return found ? <ImportInto key={alias} found={found} /> : <Reading of={reading} title={t('import')} />
}

function ImportInto({ found }: { found: OpenClass }) {
  const [source, setSource] = useState<Source | undefined>()
  const [encoding, setEncoding] = useState<Encoding>('utf-8')
  const [separator, setSeparator] = useState<string | undefined>()
  const [isTooLarge, setIsTooLarge] = useState(false)
  const table = useMemo(() => {
    if (!source) return undefined
    const text = textOf(source.content, encoding)
    return isJson(text, source.name) ? readLines(text) : readCsv(text, separator)
  }, [source, encoding, separator])
  const take = async (file: File | undefined) => {
    if (!file) return
    setIsTooLarge(file.size > LARGEST)
    if (file.size > LARGEST) return
    const content = new Uint8Array(await file.arrayBuffer())
    setEncoding(encodingOf(content))
    setSeparator(undefined)
    setSource({ name: file.name, content })
  }
  return (
    <>
      <nav className={generic.trail} aria-label={t('trail')}>
        <Link to={found.resource.route}>{found.name}</Link>
      </nav>
      <header className={generic.head}>
        <h1 tabIndex={-1}>{t('import.into', { name: found.name })}</h1>
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
              onChange={(event) => void take(event.target.files?.[0])}
            />
          </label>
          {isTooLarge && (
            <p className={css.error} role="alert">
              {t('import.too-large')}
            </p>
          )}
          {source && table && (
            <div className={look.narrow}>
              <Select
                name="encoding"
                label={t('import.encoding')}
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
                  choices={SEPARATORS.map((value) => ({ value, text: value === '\t' ? t('import.tab') : value }))}
                  onChange={(value) => setSeparator(`${value}`)}
                />
              )}
            </div>
          )}
          {source && table && (
            <p role="status">
              {t('import.read', { rows: table.rows.length, columns: table.columns.length })}
              {table.broken.length > 0 && ` ${t('import.broken', { lines: table.broken.slice(0, 20).join(', ') })}`}
            </p>
          )}
        </section>
        {source && table && table.rows.length > 0 && (
          <Rows key={`${source.name} ${encoding} ${table.separator}`} found={found} table={table} name={source.name} />
        )}
      </div>
    </>
  )
}

type State = 'mapping' | 'checking' | 'checked' | 'importing' | 'over'

/** Which column goes where, the check, and the import itself. */
function Rows({ found, table, name }: { found: OpenClass; table: Table; name: string }) {
  const fields = useMemo(
    () => [
      { alias: 'id', type: 'integer', required: false, label: t('import.id') },
      { alias: 'owner', type: 'user', required: false, label: t('owner'), autocomplete: USERS },
      ...found.fields.filter(({ type, editable }) => type !== 'file' && editable !== false),
    ],
    [found],
  )
  const [mapped, setMapped] = useState(() => {
    const taken = new Set<string>()
    return table.columns.map((column) => {
      const alias = fieldFor(column, fields)
      if (taken.has(alias)) return ''
      taken.add(alias)
      return alias
    })
  })
  const [sign, setSign] = useState<'.' | ','>(() => {
    const decimals = mapped.flatMap((alias, n) =>
      fields.find((one) => one.alias === alias)?.type === 'decimal' ? [n] : [],
    )
    return signOf(table.rows.slice(0, 1000).flatMap((row) => decimals.map((n) => `${row[n] ?? ''}`)))
  })
  const [state, setState] = useState<State>('mapping')
  const [done, setDone] = useState(0)
  const [outcome, setOutcome] = useState<Outcome | undefined>()
  const [error, setError] = useState<unknown>()
  const isStopped = useRef(false)
  const isRunning = state === 'checking' || state === 'importing'
  const used = mapped.filter(Boolean)
  const run = async (trial: Trial) => {
    isStopped.current = false
    setError(undefined)
    setOutcome(undefined)
    setDone(0)
    setState(trial === 'trial' ? 'checking' : 'importing')
    const stop = () => isStopped.current
    const zone = session()?.user?.timezone ?? 'UTC'
    try {
      const prepared = await prepare(table.rows, mapped, fields, sign, zone, stop)
      const result = await send(found.resource.path, prepared, trial, setDone, stop)
      setOutcome(result)
      if (result.error !== undefined) setError(result.error)
    } catch (failed) {
      setError(failed)
    }
    setState(trial === 'trial' ? 'checked' : 'over')
    if (trial === 'real') void wrote(found.resource.path, RECORDS)
  }
  const problems = outcome?.problems ?? new Map<number, string>()
  const saveRefused = () => {
    const rows = [...problems]
      .toSorted(([a], [b]) => a - b)
      .map(([n, text]) => ({ row: table.rows[n] ?? [], error: text }))
    saveAs(written(table, rows, t('import.problem')), `${t('import.refused-file')} ${name}`)
  }
  const map = (n: number, alias: string) =>
    setMapped((before) => before.map((one, at) => (at === n ? alias : one === alias ? '' : one)))
  const isNumber = ({ alias, type, autocomplete }: Field) =>
    (type === 'decimal' || (type === 'integer' && !autocomplete && alias !== 'id')) && mapped.includes(alias)
  const line = (n: number) => n + (table.format === 'csv' ? 2 : 1)
  return (
    <>
      <section className={look.step}>
        <h2>{t('import.columns')}</h2>
        <p className={css.hint}>{t('import.columns.hint')}</p>
        {table.columns.map((column, n) => {
          const id = `column-${n}`
          return (
            // biome-ignore lint/suspicious/noArrayIndexKey: columns may have the same name
            <div key={n} className={look.map}>
              <label htmlFor={id}>{column}</label>
              <select
                id={id}
                className={css.input}
                value={mapped[n] ?? ''}
                disabled={isRunning}
                onChange={(event) => map(n, event.target.value)}
              >
                <option value="">{t('import.skip')}</option>
                {fields.map((field) => (
                  <option key={field.alias} value={field.alias}>
                    {labelOf(field)}
                  </option>
                ))}
              </select>
              <span className={look.sample}>
                {table.rows
                  .slice(0, 3)
                  .map((row) => (typeof row[n] === 'string' ? row[n] : JSON.stringify(row[n] ?? '')))
                  .join(' · ')}
              </span>
            </div>
          )
        })}
        {table.format === 'csv' && fields.some(isNumber) && (
          <Select
            name="sign"
            label={t('import.sign')}
            isRequired
            value={sign}
            choices={[
              { value: '.', text: '1,234.56' },
              { value: ',', text: '1.234,56' },
            ]}
            onChange={(value) => setSign(value === ',' ? ',' : '.')}
          />
        )}
      </section>
      <section className={look.step}>
        <h2>{t('import.do')}</h2>
        {isRunning && (
          <>
            <progress value={done} max={table.rows.length} aria-label={t('progress')} />
            <p role="status">{t('records.bulk.far', { count: done, of: table.rows.length })}</p>
          </>
        )}
        {error !== undefined && <Failure error={error} />}
        {outcome && (
          <div className={css.notice} data-tone={problems.size > 0 ? 'warn' : 'ok'} role="status">
            <p>
              {t(state === 'checked' ? 'import.checked' : 'import.over', {
                created: outcome.created,
                updated: outcome.updated,
                refused: problems.size,
              })}
            </p>
            {problems.size > 0 && (
              <ul className={look.reasons}>
                {[...problems].slice(0, SHOWN).map(([n, text]) => (
                  <li key={n}>{t('import.line', { line: line(n), text })}</li>
                ))}
              </ul>
            )}
          </div>
        )}
        <div className={css.actions}>
          {isRunning ? (
            <Button
              onPress={() => {
                isStopped.current = true
              }}
            >
              {t('records.stop')}
            </Button>
          ) : (
            <>
              {state !== 'over' && (
                <>
                  <Button
                    look={state === 'checked' ? 'primary' : undefined}
                    isDisabled={used.length === 0}
                    onPress={() => void run('real')}
                  >
                    {t('import.start', { count: table.rows.length })}
                  </Button>
                  <Button
                    look={state === 'checked' ? undefined : 'primary'}
                    isDisabled={used.length === 0}
                    onPress={() => void run('trial')}
                  >
                    {t('import.check')}
                  </Button>
                </>
              )}
              {problems.size > 0 && (
                <Button icon="download" onPress={saveRefused}>
                  {t('import.refused')}
                </Button>
              )}
              {state === 'over' && (
                <Link className={css.button} to={found.resource.route}>
                  {t('back-to-list')}
                </Link>
              )}
            </>
          )}
        </div>
      </section>
      <Leaving isChanged={() => isRunning} />
    </>
  )
}

const USERS = '/api/users/autocomplete/?text__icontains='

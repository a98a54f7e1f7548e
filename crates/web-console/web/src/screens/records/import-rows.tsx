// The second part of an import: maps columns to fields, chooses how values are written, checks the rows and imports them.

import { useMemo, useRef, useState } from 'react'
import { writeJson } from '../../api/json.ts'
import { invalidate } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import type { Field } from '../../api/shapes.ts'
import { Failure } from '../../generic/failure.tsx'
import { Leaving } from '../../generic/form.tsx'
import { Link } from '../../generic/go.tsx'
import { saveAs } from '../../generic/save.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Select } from '../../kit/fields.tsx'
import { dayText } from '../../kit/values.tsx'
import type { DayOrder } from '../../kit/written-dates.ts'
import { type OpenClass, RECORDS } from '../../shared/records/class.ts'
import { labelOf, t } from '../../texts.ts'
import { canMatch } from './import-match.ts'
import { prepare, type Reading, type Troubles } from './import-prepare.ts'
import { type Row, type Table, written } from './import-read.ts'
import { type Outcome, send, type Trial } from './import-send.ts'
import {
  type DecimalSign,
  fieldsFor,
  isEitherOrder,
  LONGEST,
  meant,
  type Notation,
  orderOf,
  ownOrder,
  signOf,
} from './import-values.ts'
import look from './records.module.css'

const SHOWN = 100
/** The rows that a guess reads. */
const GUESSED_BY = 20_000
/** The lines that the report names for a kind of error. */
const LINES = 20

type State = 'mapping' | 'checking' | 'checked' | 'importing' | 'over'

const USERS = '/api/users/autocomplete/?text__icontains='

export function ImportRows({ openClass, table, name }: { openClass: OpenClass; table: Table; name: string }) {
  const fields = useMemo(
    () => [
      { alias: 'id', type: 'integer', required: false, label: t('import.id') },
      { alias: 'owner', type: 'user', required: false, label: t('owner'), autocomplete: USERS },
      ...openClass.fields.filter(({ type, editable }) => type !== 'file' && editable !== false),
    ],
    [openClass],
  )
  const [mapped, setMapped] = useState(() => fieldsFor(table.columns, fields))
  const [notation, setNotation] = useNotation(table, mapped, fields)
  const keys = fields.filter((field) => canMatch(field) && mapped.includes(field.alias))
  const [chosenMatch, setChosenMatch] = useState('id')
  const match = keys.some(({ alias }) => alias === chosenMatch) ? chosenMatch : 'id'
  const run = useRun(table, { list: openClass.resource.path, fields, mapped, notation, match })
  const map = (n: number, alias: string) => {
    setMapped((before) => before.map((one, at) => (at === n ? alias : one === alias ? '' : one)))
    run.reset()
  }
  return (
    <>
      <section className={look.step}>
        <h2>{t('import.columns')}</h2>
        <p className={css.hint}>{t('import.columns.hint')}</p>
        {table.columns.map((column, n) => (
          <Column
            // biome-ignore lint/suspicious/noArrayIndexKey: columns may have the same name
            key={n}
            id={`column-${n}`}
            column={column}
            fields={fields}
            alias={mapped[n] ?? ''}
            samples={table.rows.slice(0, 3).map(({ cells }) => cells[n] ?? '')}
            isDisabled={run.isRunning}
            onChange={(alias) => map(n, alias)}
          />
        ))}
        <Match
          keys={keys}
          match={match}
          isDisabled={run.isRunning}
          onChange={(alias) => {
            setChosenMatch(alias)
            run.reset()
          }}
        />
        <Written
          table={table}
          mapped={mapped}
          fields={fields}
          notation={notation}
          isDisabled={run.isRunning}
          onChange={(changed) => {
            setNotation(changed)
            run.reset()
          }}
        />
      </section>
      <section className={look.step}>
        <h2>{t('import.do')}</h2>
        <Report table={table} run={run} />
        <Actions table={table} run={run} name={name} route={openClass.resource.route} isUsed={mapped.some(Boolean)} />
      </section>
      <Leaving isChanged={() => run.isRunning} />
    </>
  )
}

/** The check and the import of the rows, with progress, result, start and stop. */
function useRun(table: Table, reading: Reading) {
  const [state, setState] = useState<State>('mapping')
  const [doneCount, setDoneCount] = useState(0)
  const [outcome, setOutcome] = useState<Outcome | undefined>()
  const [error, setError] = useState<unknown>()
  const isStopped = useRef(false)
  const start = async (trial: Trial) => {
    isStopped.current = false
    setError(undefined)
    setOutcome(undefined)
    setDoneCount(0)
    setState(trial === 'trial' ? 'checking' : 'importing')
    const stop = () => isStopped.current
    try {
      const prepared = await prepare(table.rows, reading, stop)
      const result = await send(reading.list, reading.fields, prepared, trial, setDoneCount, stop)
      setOutcome(result)
      if (result.error !== undefined) setError(result.error)
    } catch (failed) {
      setError(failed)
    }
    setState(trial === 'trial' && !isStopped.current ? 'checked' : trial === 'trial' ? 'mapping' : 'over')
    if (trial === 'real') void invalidate(reading.list, RECORDS)
  }
  return {
    state,
    isRunning: state === 'checking' || state === 'importing',
    done: doneCount,
    outcome,
    error,
    start,
    stop: () => {
      isStopped.current = true
    },
    /** Drops the result of a check after a change. */
    reset: () => {
      setState('mapping')
      setOutcome(undefined)
    },
  }
}

type Run = ReturnType<typeof useRun>

/** Chooses the field by which rows find the record that they change. */
function Match({
  keys,
  match,
  isDisabled,
  onChange,
}: {
  keys: Field[]
  match: string
  isDisabled: boolean
  onChange: (alias: string) => void
}) {
  if (keys.length === 0) return null
  return (
    <div className={look.choices}>
      <Select
        name="match"
        label={t('import.match')}
        hint={match === 'id' ? undefined : t('import.match.hint')}
        isRequired
        isDisabled={isDisabled}
        value={match}
        choices={[
          { value: 'id', text: t('import.match.id') },
          ...keys.map((field) => ({ value: field.alias, text: labelOf(field) })),
        ]}
        onChange={(value) => onChange(`${value}`)}
      />
    </div>
  )
}

/** The progress of a run, and its result. */
function Report({ table, run: { state, isRunning, done: doneCount, outcome, error } }: { table: Table; run: Run }) {
  return (
    <>
      {isRunning && (
        <>
          <progress value={doneCount} max={table.rows.length} aria-label={t('progress')} />
          <p role="status">{t('records.bulk.far', { count: doneCount, of: table.rows.length })}</p>
        </>
      )}
      {error !== undefined && <Failure error={error} />}
      {outcome && (
        <div className={css.notice} data-tone={outcome.troubles.size > 0 ? 'warn' : 'ok'} role="status">
          <p>
            {t(state === 'over' ? 'import.over' : 'import.checked', {
              created: outcome.created,
              updated: outcome.updated,
              refused: outcome.troubles.size,
            })}
            {outcome.unchanged > 0 && ` ${t('import.unchanged', { count: outcome.unchanged })}`}
          </p>
          <Refused table={table} troubles={outcome.troubles} />
        </div>
      )}
    </>
  )
}

/** Starts and stops a run, and saves the rows that it refused. */
function Actions({
  table,
  run: { state, isRunning, outcome, start, stop },
  name,
  route,
  isUsed,
}: {
  table: Table
  run: Run
  name: string
  route: string
  isUsed: boolean
}) {
  const isChecked = state === 'checked' && outcome !== undefined
  const count = isChecked ? outcome.created + outcome.updated : table.rows.filter(({ flaw }) => !flaw).length
  if (isRunning)
    return (
      <div className={css.actions}>
        <Button onPress={stop}>{t('records.stop')}</Button>
      </div>
    )
  return (
    <div className={css.actions}>
      {state !== 'over' && (
        <>
          <Button
            look={isChecked ? 'primary' : undefined}
            isDisabled={!isUsed || count === 0}
            onPress={() => void start('real')}
          >
            {t('import.start', { count })}
          </Button>
          <Button look={isChecked ? undefined : 'primary'} isDisabled={!isUsed} onPress={() => void start('trial')}>
            {t('import.check')}
          </Button>
        </>
      )}
      {outcome && outcome.troubles.size > 0 && (
        <Button icon="download" onPress={() => saveRefused(table, outcome.troubles, name)}>
          {t('import.refused')}
        </Button>
      )}
      {state === 'over' && (
        <Link className={css.button} to={route}>
          {t('back-to-list')}
        </Link>
      )}
    </div>
  )
}

function saveRefused(table: Table, troubles: Troubles, name: string) {
  const rows = [...troubles]
    .toSorted(([a], [b]) => a - b)
    .map(([n, all]) => ({ row: table.rows[n] as Row, error: all.map(({ text }) => text).join(' ') }))
  saveAs(written(table, rows, t('import.problem')), `${t('import.refused-file')} ${name}`)
}

/** Chooses the field of a column, beside a few of its values. */
function Column({
  id,
  column,
  fields,
  alias,
  samples,
  isDisabled,
  onChange,
}: {
  id: string
  column: string
  fields: Field[]
  alias: string
  samples: unknown[]
  isDisabled: boolean
  onChange: (alias: string) => void
}) {
  return (
    <div className={look.map}>
      <label htmlFor={id}>{column}</label>
      <select
        id={id}
        className={css.input}
        value={alias}
        disabled={isDisabled}
        onChange={(event) => onChange(event.target.value)}
      >
        <option value="">{t('import.skip')}</option>
        {fields.map((field) => (
          <option key={field.alias} value={field.alias}>
            {labelOf(field)}
          </option>
        ))}
      </select>
      <span className={look.sample}>
        {samples.map((cell) => (typeof cell === 'string' ? cell : writeJson(cell))).join(' · ')}
      </span>
    </div>
  )
}

/** The texts of the columns that are mapped to fields of a kind. */
const samplesOf = ({ rows }: Table, mapped: string[], fields: Field[], isOf: (field: Field) => boolean): string[] => {
  const columns = mapped.flatMap((alias, n) =>
    fields.some((field) => field.alias === alias && isOf(field)) ? [n] : [],
  )
  const cells = rows.slice(0, GUESSED_BY).flatMap(({ cells }) => columns.map((n) => cells[n]))
  return cells.filter((cell) => typeof cell === 'string').filter((text) => text.length <= LONGEST)
}

/** A day that exists in both orders, else any other. */
const sampleDay = (samples: string[]): string | undefined => {
  const days = samples.filter(isEitherOrder)
  const isOpen = (text: string) => (text.match(/\d+/g) ?? []).slice(0, 2).every((figures) => Number(figures) <= 12)
  return days.find(isOpen) ?? days[0]
}

const isDecimal = ({ type }: Field) => type === 'decimal'
const isWhole = ({ alias, type, autocomplete }: Field) => type === 'integer' && !autocomplete && alias !== 'id'
const isDay = ({ type }: Field) => type === 'date' || type === 'datetime'

/** The notation of the file: the chosen one, else a guess. */
function useNotation(table: Table, mapped: string[], fields: Field[]) {
  const [chosen, setChosen] = useState<Partial<Notation>>({})
  const guessed = useMemo(
    () => ({
      sign: signOf(samplesOf(table, mapped, fields, isDecimal)),
      order: orderOf(samplesOf(table, mapped, fields, isDay), ownOrder()),
    }),
    [table, mapped, fields],
  )
  const zone = session()?.user?.timezone ?? 'UTC'
  const notation: Notation = { ...guessed, zone, isGuarded: table.format === 'csv', ...chosen }
  return [notation, (changed: Partial<Notation>) => setChosen((before) => ({ ...before, ...changed }))] as const
}

/** Chooses the notation of numbers and days, if the file has some that depend on it. */
function Written({
  table,
  mapped,
  fields,
  notation,
  isDisabled,
  onChange,
}: {
  table: Table
  mapped: string[]
  fields: Field[]
  notation: Notation
  isDisabled: boolean
  onChange: (changed: Partial<Notation>) => void
}) {
  const numbers = useMemo(
    () => samplesOf(table, mapped, fields, (field) => isDecimal(field) || isWhole(field)),
    [table, mapped, fields],
  )
  const day = useMemo(() => sampleDay(samplesOf(table, mapped, fields, isDay)), [table, mapped, fields])
  const read =
    day === undefined
      ? undefined
      : meant({ alias: '', type: 'date', required: false }, day.split(/[T ]/)[0] ?? '', notation)
  return (
    <div className={look.choices}>
      {numbers.length > 0 && (
        <Select
          name="sign"
          label={t('import.sign')}
          isRequired
          isDisabled={isDisabled}
          value={notation.sign}
          choices={[
            { value: '.', text: '1,234.56' },
            { value: ',', text: '1.234,56' },
          ]}
          onChange={(value) => onChange({ sign: value as DecimalSign })}
        />
      )}
      {day !== undefined && (
        <Select
          name="order"
          label={t('import.order')}
          hint={
            read && 'value' in read && read.value !== null
              ? t('import.order.sample', { text: day, day: dayText(`${read.value}`) })
              : undefined
          }
          isRequired
          isDisabled={isDisabled}
          value={notation.order}
          choices={[
            { value: 'dmy', text: '31/12/2026' },
            { value: 'mdy', text: '12/31/2026' },
          ]}
          onChange={(value) => onChange({ order: value as DayOrder })}
        />
      )}
    </div>
  )
}

/** The errors, the most frequent first: each kind once, with the text of its first row and the lines of all. */
function Refused({ table, troubles }: { table: Table; troubles: Troubles }) {
  const kinds = new Map<string, { text: string; lines: number[] }>()
  for (const [n, all] of [...troubles].toSorted(([a], [b]) => a - b)) {
    for (const { kind, text } of all) {
      const one = kinds.get(kind) ?? { text, lines: [] }
      one.lines.push(table.rows[n]?.place ?? n + 1)
      kinds.set(kind, one)
    }
  }
  if (kinds.size === 0) return null
  const shown = [...kinds].toSorted(([, a], [, b]) => b.lines.length - a.lines.length).slice(0, SHOWN)
  return (
    <ul className={look.reasons}>
      {shown.map(([kind, { text, lines }]) => (
        <li key={kind}>
          {t(table.format === 'json' ? 'import.item' : 'import.line', {
            count: lines.length,
            lines: linesText(lines),
            text,
          })}
        </li>
      ))}
    </ul>
  )
}

function linesText(lines: number[]): string {
  const first = lines.slice(0, LINES).join(', ')
  return lines.length > LINES ? `${first} ${t('and-more', { count: lines.length - LINES })}` : first
}

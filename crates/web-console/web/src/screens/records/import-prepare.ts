// Turns the rows of a file into items of batches: reads values, looks up names, and collects the errors of each row.

import { get, Refusal } from '../../api/request.ts'
import type { Field, Fields, Instance, Page } from '../../api/shapes.ts'
import { choicesOf } from '../../kit/choices.ts'
import { isReference, nameOf } from '../../kit/values.tsx'
import { type Key, labelOf, t } from '../../texts.ts'
import { matchKey, recordsWith } from './import-match.ts'
import type { Row, RowFlaw } from './import-read.ts'
import { folded, type Meant, meant, type Notation } from './import-values.ts'

/** An error of a row. The report shows one text for all errors of a kind. */
export interface Trouble {
  kind: string
  text: string
}

/** By the row's place in the file. */
export type Troubles = Map<number, Trouble[]>

/** A name that no person or record has, or several have. */
interface Unresolved {
  field: Field
  name: string
  problem: 'none' | 'many'
}

export interface Item {
  row: number
  item: Fields
  /** Names that are accepted if the record already has them, such as that of a deleted account. */
  unresolved?: Unresolved[]
}

export interface Prepared {
  items: Item[]
  troubles: Troubles
}

const USERS = '/api/users/'

type Lookup = number | 'none' | 'many'

/** The people with a username; none for a caller who may not list them. */
async function peopleCalled(username: string): Promise<Instance[]> {
  try {
    return (await get<Page>(`${USERS}?username__iexact=${encodeURIComponent(username)}&limit=1`)).results
  } catch (error) {
    if (error instanceof Refusal && error.status === 403) return []
    throw error
  }
}

/** The id of a person by username or else by name, or of a record by label. */
async function idOf(field: Field, name: string): Promise<Lookup> {
  const autocomplete = field.autocomplete ?? ''
  if (autocomplete.startsWith(USERS)) {
    const [person] = await peopleCalled(name)
    if (person) return Number(person.id)
  }
  const choices = choicesOf(await get<unknown>(`${autocomplete}${encodeURIComponent(name)}`))
  const same = choices.filter(({ text }) => folded(text) === folded(name))
  const [first] = same
  return first === undefined ? 'none' : same.length > 1 ? 'many' : Number(first.value)
}

/** An error of a value. */
const trouble = (field: Field, problem: string, of = ''): Trouble => ({
  kind: `${field.alias} ${problem}`,
  text: `${labelOf(field)}: ${t(`import.problem.${problem}` as Key, { of })}`,
})

export const nameTrouble = ({ field, name, problem }: Unresolved) => trouble(field, problem, name)

/** True if the user or record in a field of a record has this name. */
export function isCalled(record: Instance, { alias }: Field, name: string): boolean {
  const value = alias === 'owner' ? record.owner : (record.fields as Fields)[alias]
  const labels = (record._meta?.labels?.fields ?? {}) as Fields
  const texts = isReference(value) ? [value.username, nameOf(value)] : [labels[alias]]
  return texts.some((text) => typeof text === 'string' && folded(text) === folded(name))
}

export const rowTrouble = (flaw: RowFlaw): Trouble => ({
  kind: flaw.flaw,
  text: t(`import.flaw.${flaw.flaw}` as Key, flaw.flaw === 'cells' ? { cells: flaw.cells, columns: flaw.columns } : {}),
})

/** Lets the browser draw. */
const breathe = () => new Promise((resolve) => setTimeout(resolve))

export interface Reading {
  /** The path of the records of the class. */
  list: string
  fields: Field[]
  /** The alias of the field of each column, or nothing. */
  mapped: string[]
  notation: Notation
  /** The alias of the field by which rows without an id find their records; `id` for none. */
  match: string
}

/** Reads rows by the columns that are mapped to fields, asks for the ids of names, and collects the errors. */
export async function prepare(rows: Row[], reading: Reading, isStopped: () => boolean): Promise<Prepared> {
  const { fields, mapped } = reading
  const columns = mapped.map((alias) => fields.find((field) => field.alias === alias))
  const readings = await readRows(rows, columns, reading.notation, isStopped)
  await findRecords(readings, reading, isStopped)
  const prepared: Prepared = { items: [], troubles: new Map() }
  for (const { row, values, troubles, unresolved } of readings) {
    const { item, missing } = itemOf(values, fields, columns)
    if (item.id === undefined) troubles.push(...unresolved.map(nameTrouble))
    if (troubles.length === 0) troubles.push(...missing.map((field) => trouble(field, 'required')))
    if (troubles.length > 0) prepared.troubles.set(row, troubles)
    else prepared.items.push({ row, item, ...(unresolved.length > 0 && { unresolved }) })
  }
  return prepared
}

interface ReadRow {
  row: number
  values: Fields
  troubles: Trouble[]
  unresolved: Unresolved[]
}

async function readRows(
  rows: Row[],
  columns: (Field | undefined)[],
  notation: Notation,
  isStopped: () => boolean,
): Promise<ReadRow[]> {
  const names = new Map<string, Lookup>()
  const look = async (field: Field, name: string): Promise<Lookup> => {
    const key = `${field.autocomplete} ${folded(name)}`
    const id = names.get(key) ?? (await idOf(field, name))
    names.set(key, id)
    return id
  }
  const readings: ReadRow[] = []
  for (const [n, row] of rows.entries()) {
    if (isStopped()) break
    if (n % 1000 === 999) await breathe()
    if (row.flaw) readings.push({ row: n, values: {}, troubles: [rowTrouble(row.flaw)], unresolved: [] })
    else readings.push({ row: n, ...(await valuesOf(row, columns, notation, look)) })
  }
  return readings
}

/** Sets the ids of rows that are identified by a field. */
async function findRecords(readings: ReadRow[], { list, fields, match }: Reading, isStopped: () => boolean) {
  const field = fields.find(({ alias }) => alias === match)
  if (!field || match === 'id') return
  const keyOf = ({ values }: ReadRow) => {
    const value = values[match] ?? null
    return value === null || (values.id ?? null) !== null ? undefined : matchKey(value)
  }
  const keys = new Set(readings.flatMap((row) => keyOf(row) ?? []))
  const ids = await recordsWith(list, match, keys, isStopped)
  for (const row of readings) {
    const key = keyOf(row)
    const id = key === undefined ? undefined : ids.get(key)
    if (id === 'many') row.troubles.push(trouble(field, 'many', key))
    else if (id !== undefined) row.values.id = id
  }
}

/** The values of a row by the aliases of their fields; a cell that is not there has none. */
async function valuesOf(
  { cells }: Row,
  columns: (Field | undefined)[],
  notation: Notation,
  look: (field: Field, name: string) => Promise<Lookup>,
): Promise<{ values: Fields; troubles: Trouble[]; unresolved: Unresolved[] }> {
  const values: Fields = {}
  const troubles: Trouble[] = []
  const unresolved: Unresolved[] = []
  for (const [at, field] of columns.entries()) {
    const cell = cells[at]
    if (!field || cell === undefined) continue
    const outcome: Meant = meant(field, cell, notation)
    if ('value' in outcome) values[field.alias] = outcome.value
    else if ('problem' in outcome) troubles.push(trouble(field, outcome.problem, outcome.of))
    else {
      const id = await look(field, outcome.name)
      if (typeof id === 'number') values[field.alias] = id
      else unresolved.push({ field, name: outcome.name, problem: id })
    }
  }
  return { values, troubles, unresolved }
}

/** The item of a batch, and the required fields that it lacks. */
function itemOf(values: Fields, fields: Field[], columns: (Field | undefined)[]): { item: Fields; missing: Field[] } {
  const { id = null, owner = null, ...own } = values
  const isNew = id === null
  // A missing value of a new record takes its default. Its owner is the user who creates it.
  const newValues = isNew ? Object.fromEntries(Object.entries(own).filter(([, value]) => value !== null)) : own
  const missing = (isNew ? fields : columns).filter((field): field is Field => {
    if (!field?.required) return false
    const hasDefault = field.default !== undefined && field.default !== null
    return isNew ? newValues[field.alias] === undefined && !hasDefault : newValues[field.alias] === null
  })
  return { item: { ...(!isNew && { id }), ...(owner !== null && { owner }), fields: newValues }, missing }
}

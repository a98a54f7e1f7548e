// Rows of a file become records: names are looked up, what is wrong is told by its row, and the rest is sent.

import { call, get, Refusal } from '../../api/request.ts'
import type { Field, Fields, Instance, Json, Page } from '../../api/shapes.ts'
import { choicesOf } from '../../kit/choices.ts'
import { isReference, nameOf } from '../../kit/values.tsx'
import { type Key, labelOf, t } from '../../texts.ts'
import { cut, inBatches, patiently, SIZE } from './batch.ts'
import { changesOf } from './import-changes.ts'
import type { Row, RowFlaw } from './import-read.ts'
import { folded, type Meant, meant, type Notation } from './import-values.ts'

export type Trial = 'trial' | 'real'

/** What is wrong with a row. Those of one kind are told together, by the first of them. */
export interface Trouble {
  kind: string
  text: string
}

/** By the row's place in the file. */
export type Troubles = Map<number, Trouble[]>

/** A name of a person or a record that the API does not have, or has twice. */
interface Unresolved {
  field: Field
  name: string
  problem: 'none' | 'many'
}

export interface Item {
  row: number
  item: Fields
  /** Names that are right where the record has them already, such as that of an account that is gone. */
  unresolved?: Unresolved[]
}

export interface Prepared {
  items: Item[]
  troubles: Troubles
}

export interface Outcome {
  created: number
  updated: number
  /** Rows that have nothing new for their records, to which nothing is sent. */
  unchanged: number
  troubles: Troubles
  /** What ended it before the end. */
  error?: unknown
}

const USERS = '/api/users/'

type Looked = number | 'none' | 'many'

/** The people with a username; none for a caller who may not list them. */
async function peopleCalled(username: string): Promise<Instance[]> {
  try {
    return (await get<Page>(`${USERS}?username__iexact=${encodeURIComponent(username)}&limit=1`)).results
  } catch (error) {
    if (error instanceof Refusal && error.status === 403) return []
    throw error
  }
}

/** The id of what is called so: people by their usernames, else their names; records by their labels. */
async function idOf(field: Field, name: string): Promise<Looked> {
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

/** The texts of everything that can be wrong with a value. */
const trouble = (field: Field, problem: string, of = ''): Trouble => ({
  kind: `${field.alias} ${problem}`,
  text: `${labelOf(field)}: ${t(`import.problem.${problem}` as Key, { of })}`,
})

const nameTrouble = ({ field, name, problem }: Unresolved) => trouble(field, problem, name)

/** Whether a person or a record of a field is called so, as far as the record that has it tells. */
function isCalled(record: Instance, { alias }: Field, name: string): boolean {
  const value = alias === 'owner' ? record.owner : (record.fields as Fields)[alias]
  const labels = (record._meta?.labels?.fields ?? {}) as Fields
  const texts = isReference(value) ? [value.username, nameOf(value)] : [labels[alias]]
  return texts.some((text) => typeof text === 'string' && folded(text) === folded(name))
}

export const rowTrouble = (flaw: RowFlaw): Trouble => ({
  kind: flaw.flaw,
  text: t(`import.flaw.${flaw.flaw}` as Key, flaw.flaw === 'cells' ? { cells: flaw.cells, columns: flaw.columns } : {}),
})

/** Drawing goes on in between. */
const breathe = () => new Promise((resolve) => setTimeout(resolve))

/** Reads rows by the columns that are mapped to fields, asks for the ids of names, and finds what is wrong. */
export async function prepare(
  rows: Row[],
  mapped: string[],
  fields: Field[],
  notation: Notation,
  isStopped: () => boolean,
): Promise<Prepared> {
  const columns = mapped.map((alias) => fields.find((field) => field.alias === alias))
  const names = new Map<string, Looked>()
  const look = async (field: Field, name: string): Promise<Looked> => {
    const key = `${field.autocomplete} ${folded(name)}`
    const id = names.get(key) ?? (await idOf(field, name))
    names.set(key, id)
    return id
  }
  const prepared: Prepared = { items: [], troubles: new Map() }
  for (const [n, row] of rows.entries()) {
    if (isStopped()) break
    if (n % 1000 === 999) await breathe()
    if (row.flaw) {
      prepared.troubles.set(n, [rowTrouble(row.flaw)])
      continue
    }
    const { values, troubles, unresolved } = await valuesOf(row, columns, notation, look)
    const { item, missing } = itemOf(values, fields, columns)
    if (item.id === undefined) troubles.push(...unresolved.map(nameTrouble))
    if (troubles.length === 0) troubles.push(...missing.map((field) => trouble(field, 'required')))
    if (troubles.length > 0) prepared.troubles.set(n, troubles)
    else prepared.items.push({ row: n, item, ...(unresolved.length > 0 && { unresolved }) })
  }
  return prepared
}

/** The values of a row by the aliases of their fields; a cell that is not there has none. */
async function valuesOf(
  { cells }: Row,
  columns: (Field | undefined)[],
  notation: Notation,
  look: (field: Field, name: string) => Promise<Looked>,
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
  // What a new record is not told takes its default; who it is of, whoever makes it.
  const told = isNew ? Object.fromEntries(Object.entries(own).filter(([, value]) => value !== null)) : own
  const missing = (isNew ? fields : columns).filter((field): field is Field => {
    if (!field?.required) return false
    const hasDefault = field.default !== undefined && field.default !== null
    return isNew ? told[field.alias] === undefined && !hasDefault : told[field.alias] === null
  })
  return { item: { ...(!isNew && { id }), ...(owner !== null && { owner }), fields: told }, missing }
}

/** As many records are read at once; more ids would make a long address. */
const PAGE = 100
/** Of an address; beyond it whole records are read. */
const LONGEST_ALIASES = 2000

/** The records of these ids that the caller may view, by their ids; none where reading them is refused. */
async function storedRecords(list: string, ids: Json[], aliases: string[]): Promise<Map<number, Instance>> {
  const stored = new Map<number, Instance>()
  const names = aliases.join()
  const fields = names !== '' && names.length <= LONGEST_ALIASES ? `&fields=${encodeURIComponent(names)}` : ''
  for (let at = 0; at < ids.length; at += PAGE) {
    const wanted = ids.slice(at, at + PAGE).join()
    try {
      const { results } = await patiently(() => get<Page>(`${list}?id__in=${wanted}&limit=${PAGE}${fields}`))
      for (const one of results) stored.set(Number(one.id), one)
    } catch (error) {
      if (!(error instanceof Refusal) || ![400, 403, 404].includes(error.status)) throw error
    }
  }
  return stored
}

/** What was not answered may have been done; what was never sent was not. */
export async function send(
  list: string,
  fields: Field[],
  { items, troubles }: Prepared,
  trial: Trial,
  told: (done: number) => void,
  isStopped: () => boolean,
): Promise<Outcome> {
  const outcome: Outcome = { created: 0, updated: 0, unchanged: 0, troubles: new Map(troubles) }
  const path = `${list}batch/${trial === 'trial' ? '?dry_run=true' : ''}`
  const isDone = new Set<number>()
  let onItsWay: number[] = []
  const far = () => told(isDone.size + outcome.troubles.size)
  /** A thousand changes at a time, without what the records have already. */
  async function* changes(own: Item[]) {
    for (const part of cut(own, SIZE)) {
      const named = part.flatMap(({ unresolved = [] }) => unresolved.map(({ field }) => field.alias))
      const aliases = new Set([...part.flatMap(({ item }) => Object.keys(item.fields as Fields)), ...named])
      const ids = part.map(({ item }) => item.id ?? null)
      const stored = await storedRecords(list, ids, [...aliases])
      const changed = part.flatMap(({ row, item, unresolved = [] }) => {
        const before = stored.get(Number(item.id))
        const wrong = unresolved.filter(({ field, name }) => !before || !isCalled(before, field, name))
        if (wrong.length > 0) {
          outcome.troubles.set(row, wrong.map(nameTrouble))
          return []
        }
        const left = before ? changesOf(item, before, fields) : item
        if (left) return [{ row, item: left }]
        isDone.add(row)
        outcome.unchanged++
        return []
      })
      far()
      if (changed.length > 0) yield changed
    }
  }
  far()
  for (const method of ['POST', 'PATCH'] as const) {
    const own = items.filter(({ item }) => (item.id === undefined) === (method === 'POST'))
    const one = async (part: Item[]) => {
      onItsWay = part.map(({ row }) => row)
      await call(method, path, { body: { items: part.map(({ item }) => item) } })
      for (const row of onItsWay) isDone.add(row)
      onItsWay = []
      if (method === 'POST') outcome.created += part.length
      else outcome.updated += part.length
    }
    try {
      await inBatches(
        method === 'POST' ? cut(own) : changes(own),
        one,
        ({ refused }) => {
          for (const { item, text } of refused) outcome.troubles.set(item.row, [{ kind: text, text }])
          far()
        },
        isStopped,
      )
    } catch (error) {
      outcome.error = error
      break
    }
    if (isStopped()) break
  }
  for (const { row } of items) {
    if (isDone.has(row) || outcome.troubles.has(row)) continue
    const kind = onItsWay.includes(row) ? 'unanswered' : 'unsent'
    outcome.troubles.set(row, [{ kind, text: t(`import.problem.${kind}`) }])
  }
  return outcome
}

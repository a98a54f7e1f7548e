// Rows of a file become records: names are looked up, what is wrong is told by its row, and the rest is sent.

import { call, get } from '../../api/request.ts'
import type { Field, Fields, Json, Page } from '../../api/shapes.ts'
import { choicesOf } from '../../kit/choices.ts'
import { type Key, labelOf, t } from '../../texts.ts'
import { cut, inBatches } from './batch.ts'
import { type Meant, meant } from './import-values.ts'

export type Trial = 'trial' | 'real'

export interface Prepared {
  items: { row: number; item: Fields }[]
  problems: Map<number, string>
}

export interface Outcome {
  created: number
  updated: number
  /** What is wrong, by the row's place in the file. */
  problems: Map<number, string>
  /** What ended it before the end. */
  error?: unknown
}

const USERS = '/api/users/'

/** The id of what is called so: people by their e-mail address or name, records by their labels. */
async function idOf(field: Field, name: string): Promise<number | 'none' | 'many'> {
  const autocomplete = field.autocomplete ?? ''
  if (autocomplete.startsWith(USERS) && name.includes('@')) {
    const { results } = await get<Page>(`${USERS}?username__iexact=${encodeURIComponent(name)}&limit=1`)
    return results[0] ? Number(results[0].id) : 'none'
  }
  const choices = choicesOf(await get<unknown>(`${autocomplete}${encodeURIComponent(name)}`))
  const same = choices.filter(({ text }) => text.toLowerCase() === name.toLowerCase())
  const [first] = same
  return first === undefined ? 'none' : same.length > 1 ? 'many' : Number(first.value)
}

const problemText = (field: Field, outcome: Exclude<Meant, { value: Json } | { name: string }>) =>
  `${labelOf(field)}: ${t(`import.problem.${outcome.problem}` as Key, { of: outcome.of })}`

/** Drawing goes on in between. */
const breathe = () => new Promise((resolve) => setTimeout(resolve))

export async function prepare(
  rows: Json[][],
  mapped: string[],
  fields: Field[],
  sign: '.' | ',',
  zone: string,
  isStopped: () => boolean,
): Promise<Prepared> {
  const columns = mapped.map((alias) => fields.find((field) => field.alias === alias))
  const names = new Map<string, number | 'none' | 'many'>()
  const prepared: Prepared = { items: [], problems: new Map() }
  for (const [n, row] of rows.entries()) {
    if (isStopped()) break
    if (n % 1000 === 999) await breathe()
    const values: Fields = {}
    const beside: Fields = {}
    const wrong: string[] = []
    for (const [at, field] of columns.entries()) {
      if (!field) continue
      const outcome = meant(field, row[at] ?? null, sign, zone)
      const target = field.alias === 'id' || field.alias === 'owner' ? beside : values
      if ('value' in outcome) target[field.alias] = outcome.value
      else if ('problem' in outcome) wrong.push(problemText(field, outcome))
      else {
        const key = `${field.autocomplete} ${outcome.name.toLowerCase()}`
        const id = names.get(key) ?? (await idOf(field, outcome.name))
        names.set(key, id)
        if (typeof id === 'number') target[field.alias] = id
        else wrong.push(`${labelOf(field)}: ${t(`import.problem.${id}`, { of: outcome.name })}`)
      }
    }
    const isNew = beside.id === null || beside.id === undefined
    if (isNew) {
      delete beside.id
      // What a new record is not told takes its default; who it is of, whoever makes it.
      for (const [alias, value] of Object.entries(values)) if (value === null) delete values[alias]
    }
    if (beside.owner === null) delete beside.owner
    for (const field of isNew ? fields : columns) {
      if (!field?.required || wrong.length > 0) continue
      const isDefault = field.default !== undefined && field.default !== null
      const value = values[field.alias]
      if ((isNew && value === undefined && !isDefault) || value === null)
        wrong.push(`${labelOf(field)}: ${t('import.problem.required')}`)
    }
    if (wrong.length > 0) prepared.problems.set(n, wrong.join(' '))
    else prepared.items.push({ row: n, item: { ...beside, fields: values } })
  }
  return prepared
}

/** What was not answered may have been done; what was never sent was not. */
export async function send(
  list: string,
  { items, problems: known }: Prepared,
  trial: Trial,
  told: (done: number) => void,
  isStopped: () => boolean,
): Promise<Outcome> {
  const outcome: Outcome = { created: 0, updated: 0, problems: new Map(known) }
  const path = `${list}batch/${trial === 'trial' ? '?dry_run=true' : ''}`
  const isDone = new Set<number>()
  let onItsWay: number[] = []
  const far = () => told(isDone.size + outcome.problems.size)
  far()
  for (const method of ['POST', 'PATCH'] as const) {
    const own = items.filter(({ item }) => (item.id === undefined) === (method === 'POST'))
    const one = async (part: typeof own) => {
      onItsWay = part.map(({ row }) => row)
      await call(method, path, { body: { items: part.map(({ item }) => item) } })
      for (const row of onItsWay) isDone.add(row)
      onItsWay = []
      if (method === 'POST') outcome.created += part.length
      else outcome.updated += part.length
    }
    try {
      await inBatches(
        cut(own),
        one,
        ({ refused }) => {
          for (const { item, text } of refused) outcome.problems.set(item.row, text)
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
    if (isDone.has(row) || outcome.problems.has(row)) continue
    outcome.problems.set(row, t(onItsWay.includes(row) ? 'import.problem.unanswered' : 'import.problem.unsent'))
  }
  return outcome
}

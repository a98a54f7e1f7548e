// Sends the items of an import a thousand at a time. Changes are reduced to the values that differ.

import { call, get, Refusal } from '../../api/request.ts'
import type { Field, Fields, Instance, Json, Page } from '../../api/shapes.ts'
import { t } from '../../texts.ts'
import { cut, inBatches, patiently, SIZE } from './batch.ts'
import { changesOf } from './import-changes.ts'
import { type Item, isCalled, nameTrouble, type Prepared, type Troubles } from './import-prepare.ts'

export type Trial = 'trial' | 'real'

export interface Outcome {
  created: number
  updated: number
  /** Rows that equal their records, for which nothing is sent. */
  unchanged: number
  troubles: Troubles
  /** The error that ended the run. */
  error?: unknown
}

/** Records per request; more ids would make the address too long. */
const PAGE = 100
/** Characters of the address; for more, whole records are read. */
const LONGEST_ALIASES = 2000

/** Reads the records with these ids that the caller may view. A refusal leaves them out. */
async function storedRecords(list: string, ids: Json[], aliases: string[]): Promise<Map<number, Instance>> {
  const stored = new Map<number, Instance>()
  const names = aliases.join()
  const fields = names !== '' && names.length <= LONGEST_ALIASES ? `&fields=${encodeURIComponent(names)}` : ''
  for (let at = 0; at < ids.length; at += PAGE) {
    const page = ids.slice(at, at + PAGE).join()
    try {
      const { results } = await patiently(() => get<Page>(`${list}?id__in=${page}&limit=${PAGE}${fields}`))
      for (const one of results) stored.set(Number(one.id), one)
    } catch (error) {
      if (!(error instanceof Refusal) || ![400, 403, 404].includes(error.status)) throw error
    }
  }
  return stored
}

/** A request without an answer may have been executed. A request that was not sent was not. */
export async function send(
  list: string,
  fields: Field[],
  { items, troubles }: Prepared,
  trial: Trial,
  onProgress: (done: number) => void,
  isStopped: () => boolean,
): Promise<Outcome> {
  const outcome: Outcome = { created: 0, updated: 0, unchanged: 0, troubles: new Map(troubles) }
  const path = `${list}batch/${trial === 'trial' ? '?dry_run=true' : ''}`
  const isDone = new Set<number>()
  let onItsWay: number[] = []
  const reportProgress = () => onProgress(isDone.size + outcome.troubles.size)
  /** Yields a thousand changes at a time, reduced to the values that differ. */
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
      reportProgress()
      if (changed.length > 0) yield changed
    }
  }
  reportProgress()
  for (const method of ['POST', 'PATCH'] as const) {
    const own = items.filter(({ item }) => (item.id === undefined) === (method === 'POST'))
    const sendOne = async (part: Item[]) => {
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
        sendOne,
        ({ refused }) => {
          for (const { item, text } of refused) outcome.troubles.set(item.row, [{ kind: text, text }])
          reportProgress()
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

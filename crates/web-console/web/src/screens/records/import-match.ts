// Finds records by the values of a field, so that rows without an ID can change them.

import { get } from '../../api/request.ts'
import type { Field, Fields, Json, Page } from '../../api/shapes.ts'
import { patiently, SIZE } from './batch.ts'

/** Up to this many values are looked up one by one; for more, all records of the class are read. */
const FEW = 50

const KEYS = ['string', 'email', 'integer']

/** True if a field can identify records. */
export const canMatch = ({ alias, type, autocomplete }: Field) =>
  KEYS.includes(type) && !autocomplete && alias !== 'id' && alias !== 'owner'

/** The value in the form in which values are compared: trimmed, in NFC. */
export const matchKey = (value: Json) => `${value}`.normalize('NFC').trim()

/** The ids of the records that have these values, by key; 'many' if several records have the value. */
export async function recordsWith(
  list: string,
  alias: string,
  keys: Set<string>,
  isStopped: () => boolean,
): Promise<Map<string, number | 'many'>> {
  const ids = new Map<string, number | 'many'>()
  const add = ({ results }: Page) => {
    for (const { id, fields } of results) {
      const value = (fields as Fields)[alias]
      if (value === null || value === undefined) continue
      const key = matchKey(value)
      if (keys.has(key)) ids.set(key, ids.has(key) && ids.get(key) !== id ? 'many' : Number(id))
    }
  }
  const read = (parameters: string) => patiently(() => get<Page>(`${list}?fields=${alias}&${parameters}`))
  if (keys.size <= FEW) {
    for (const key of keys) if (!isStopped()) add(await read(`limit=${FEW}&${alias}=${encodeURIComponent(key)}`))
    return ids
  }
  for (let last = 0; !isStopped(); ) {
    const page = await read(`limit=${SIZE}&ordering=id&id__gt=${last}`)
    add(page)
    if (!page.next) break
    last = Number(page.results.at(-1)?.id ?? last)
  }
  return ids
}

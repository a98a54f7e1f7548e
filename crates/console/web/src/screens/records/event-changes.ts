// Events of a record tell the new values alone; what was there before, an older event tells.

import type { Fields, Instance, Json } from '../../api/shapes.ts'
import { same } from '../../generic/changes.ts'

export interface Change {
  key: string
  name: string
  type: string
  /** Undefined where no event that is known tells it. */
  old: Json | undefined
  now: Json
}

const asObjects = (data: Json | undefined): Fields[] =>
  Array.isArray(data) ? data.filter((one): one is Fields => typeof one === 'object' && one !== null) : []

/** For each event, newest first, what it changed. */
export function changesOf(events: Instance[]): Change[][] {
  const values = new Map<string, Json>()
  const changes = events.toReversed().map((event) =>
    asObjects(event.event_data).flatMap((one, n): Change[] => {
      if (one.field_id !== undefined && one.field_name !== undefined) {
        const key = `${one.field_id}`
        const now = one.field_value ?? null
        const old = values.get(key)
        values.set(key, now)
        // A status is told twice when a record is made.
        return [
          { key, name: `${one.field_name}`, type: `${one.field_type}`, old: same(old, now) ? undefined : old, now },
        ]
      }
      if (typeof one.name !== 'string') return []
      const set = one.permission_set as Fields | undefined
      return [{ key: `${n} ${one.id}`, name: set ? `${set.name}` : '', type: 'string', old: undefined, now: one.name }]
    }),
  )
  return changes.toReversed()
}

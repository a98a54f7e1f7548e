// Events of a record tell the new values alone; what was there before, an older event tells.

import type { Fields, Instance, Json } from '../../api/shapes.ts'
import { same } from '../../generic/changes.ts'

export interface Change {
  key: string
  name: string
  type: string
  /** Undefined where no event that is known tells it. */
  old: Json | undefined
  /** An event that is not known, further back, tells it. */
  isFurther: boolean
  now: Json
}

const asObjects = (data: Json | undefined): Fields[] =>
  Array.isArray(data) ? data.filter((one): one is Fields => typeof one === 'object' && one !== null) : []

/** For each event, newest first, what it changed. `isWhole`: there are no older ones. */
export function changesOf(events: Instance[], isWhole = true): Change[][] {
  const values = new Map<string, Json>()
  let isKnown = isWhole
  const changes = events.toReversed().map((event) => {
    // It tells all fields that are set: the others are empty from then on.
    if (event.event_type === 'record_created') {
      values.clear()
      isKnown = true
    }
    const isChange = event.event_type === 'field_values_changed'
    return asObjects(event.event_data).flatMap((one, n): Change[] => {
      if (one.field_id !== undefined && one.field_name !== undefined) {
        const key = `${one.field_id}`
        const now = one.field_value ?? null
        const old = values.get(key)
        values.set(key, now)
        // A status is told twice when a record is made.
        const change = { key, name: `${one.field_name}`, type: `${one.field_type}`, now }
        const isFurther = isChange && old === undefined && !isKnown
        return [{ ...change, old: same(old, now) ? undefined : old, isFurther }]
      }
      if (typeof one.name !== 'string') return []
      const set = one.permission_set as Fields | undefined
      const change = { key: `${n} ${one.id}`, name: set ? `${set.name}` : '', type: 'string', now: one.name }
      return [{ ...change, old: undefined, isFurther: false }]
    })
  })
  return changes.toReversed()
}

// Events of a record contain the new values only. The previous values are in older events.

import type { Fields, Instance, Json } from '../../api/shapes.ts'
import { isEqual } from '../../generic/changes.ts'

export interface Change {
  key: string
  name: string
  type: string
  /** Undefined if a read event does not contain it. */
  old: Json | undefined
  /** An older event that is not read yet contains it. */
  isFurther: boolean
  now: Json
}

const asObjects = (data: Json | undefined): Fields[] =>
  Array.isArray(data) ? data.filter((one): one is Fields => typeof one === 'object' && one !== null) : []

/** The changes of each event, newest first. `isWhole`: all events are read. */
export function changesOf(events: Instance[], isWhole = true): Change[][] {
  const values = new Map<string, Json>()
  let isKnown = isWhole
  const changes = events.toReversed().map((event) => {
    // This event contains all set fields. The others are empty after it.
    if (event.event_type === 'record_created') {
      values.clear()
      isKnown = true
    }
    const isChange = event.event_type === 'field_values_changed'
    return asObjects(event.event_data).flatMap((eventField, n): Change[] => {
      if (eventField.field_id !== undefined && eventField.field_name !== undefined) {
        const key = `${eventField.field_id}`
        const now = eventField.field_value ?? null
        const old = values.get(key)
        values.set(key, now)
        // The creation of a record has two events for its status.
        const change = { key, name: `${eventField.field_name}`, type: `${eventField.field_type}`, now }
        const isFurther = isChange && old === undefined && !isKnown
        return [{ ...change, old: isEqual(old, now) ? undefined : old, isFurther }]
      }
      if (typeof eventField.name !== 'string') return []
      const set = eventField.permission_set as Fields | undefined
      const change = {
        key: `${n} ${eventField.id}`,
        name: set ? `${set.name}` : '',
        type: 'string',
        now: eventField.name,
      }
      return [{ ...change, old: undefined, isFurther: false }]
    })
  })
  return changes.toReversed()
}

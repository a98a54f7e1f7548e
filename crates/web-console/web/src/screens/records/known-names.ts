// Names for the ids of users and related records in events. The record and its other events contain some of them.

import type { Field, Fields, Instance, Json, Reference } from '../../api/shapes.ts'

export interface Names {
  people: Map<number, string>
  records: Map<number, string>
  /** Related records that the caller may not see. */
  hidden: Set<number>
}

const isPerson = (value: unknown): value is Reference =>
  typeof value === 'object' && value !== null && 'username' in value && 'first_name' in value

/** `record` is flat: its values are beside the members of every instance, its labels by their names. */
export function namesIn(record: Instance, fields: Field[], events: Instance[]): Names {
  const people = new Map<number, string>()
  const records = new Map<number, string>()
  const hidden = new Set<number>()
  const add = (names: Map<number, string>, id: Json | undefined, name: Json | undefined) => {
    if (typeof id === 'number' && typeof name === 'string' && name !== '') names.set(id, name)
  }
  for (const event of events) {
    if (event.source_type === 'user') add(people, event.source_id, event.source_name)
    for (const one of Array.isArray(event.event_data) ? (event.event_data as Fields[]) : [])
      if (one?.type === 'user') add(people, one.id, one.name)
  }
  for (const value of Object.values(record)) {
    if (isPerson(value)) people.set(value.id, `${value.first_name} ${value.last_name}`.trim() || value.username)
  }
  for (const { alias, type } of fields) {
    const label = record._meta?.labels?.[alias]
    if (type === 'user') add(people, record[alias], label)
    if (type === 'relation') add(records, record[alias], label)
    if (type === 'relation' && label === null && typeof record[alias] === 'number') hidden.add(record[alias])
  }
  return { people, records, hidden }
}

// A class as a resource of its records, made when it is opened.

import { type UseQueryResult, useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { get } from '../../api/request.ts'
import type { Field, Fields, Instance, Options } from '../../api/shapes.ts'
import { limit } from '../../generic/limit.ts'
import type { Action, Resource } from '../../generic/resource.ts'
import { describedBy } from '../../generic/shape.ts'
import { classByAlias } from '../menu.ts'
import { RECORD } from './shape.ts'

export const CLASSES = '/api/object-classes/'
export const RECORDS = '/api/object-records/'
export const listOf = (id: number) => `${CLASSES}${id}/object-records/`

export interface OpenClass {
  id: number
  name: string
  alias: string
  /** The class as the API shows it. */
  instance: Instance
  resource: Resource
  /** The fields of its records. */
  fields: Field[]
  columns: NonNullable<Options['list']>['columns']
}

const BESIDE = ['id', 'object_class', 'owner', 'created_at', 'created_by', 'modified_at', 'modified_by']
const AT_FIRST = 7

/** The alias of the field that names a record: without a choice the first short text. */
function labelField(one: Instance, fields: Field[]): string | undefined {
  if (typeof one.label_field === 'string') return one.label_field
  return fields.find((field) => field.type === 'string' && (limit(field, 'max_length') ?? 0) <= 400)?.alias
}

function opened(instance: Instance, described: Options, actions: Action[] | undefined): OpenClass {
  const id = Number(instance.id)
  const name = `${instance.name}`
  const fields = described.details.schema.filter(({ alias }) => !BESIDE.includes(alias))
  const label = labelField(instance, fields)
  const aliases = fields.map(({ alias }) => alias)
  const first = label ? [label, ...aliases.filter((alias) => alias !== label)] : ['id', ...aliases]
  return {
    id,
    name,
    alias: `${instance.alias}`,
    instance: instance,
    fields,
    columns: described.list?.columns ?? [],
    resource: {
      name: 'object_records',
      path: listOf(id),
      instances: RECORDS,
      shape: RECORD,
      route: `/records/${instance.alias}`,
      icon: 'file-text',
      title: 'records',
      one: 'records.one',
      names: { title: name, one: name },
      label: (record) => (label && record[label] ? `${record[label]}` : `#${record.id}`),
      columns: [...first.slice(0, AT_FIRST), 'modified_at'],
      search: 'search',
      sharedViews: `list-${id}`,
      sections: [{ title: 'records.fields', fields: aliases }],
      hidden: ['owner', 'object_class'],
      deletes: 'records.deletes',
      isRestorable: true,
      nothing: 'records.nothing',
      hasLog: false,
      canDeleteMany: false,
      ...(actions && { actions }),
    },
  }
}

const byId = (id: number) => ({
  queryKey: [`${CLASSES}${id}/`, 'class'],
  queryFn: () => get<Instance>(`${CLASSES}${id}/`),
  staleTime: 60_000,
})

export interface Opening {
  openClass: OpenClass | undefined
  /** The class does not exist, or is not visible. */
  isMissing: boolean
  /** The state of reading the class. */
  reading: UseQueryResult[]
}

/** A class by its alias or its id, with the schema of its records. */
export function useClass(name: string | number | undefined, actions?: Action[]): Opening {
  const isId = typeof name === 'number'
  const named = useQuery({ ...classByAlias(`${name}`), enabled: typeof name === 'string' })
  const numbered = useQuery({ ...byId(Number(name)), enabled: isId })
  const objectClass = (isId ? numbered.data : named.data) ?? undefined
  const path = listOf(Number(objectClass?.id))
  const described = useQuery({ ...describedBy({ path, shape: RECORD }), enabled: objectClass !== undefined })
  const openClass = useMemo(
    () => (objectClass && described.data ? opened(objectClass, described.data, actions) : undefined),
    [objectClass, described.data, actions],
  )
  return {
    openClass: openClass,
    isMissing: named.data === null && !isId,
    reading: [named, numbered, described],
  }
}

/** The permissions of the caller on all records of the class, and on their creation. */
export function mayRecords(one: Instance, action: string): boolean {
  const permissions = (one._meta?.permissions ?? {}) as Fields
  return (permissions.object_records as Fields | undefined)?.[action] === true
}

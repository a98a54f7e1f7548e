// The names of values in the administration log: people and objects by their names, options by their texts.

import { useQuery } from '@tanstack/react-query'
import { options, page } from '../api/query.ts'
import { session } from '../api/session.ts'
import type { Field, Instance, Json } from '../api/shapes.ts'
import { type Key, t } from '../texts.ts'
import type { Resource } from './resource.ts'

/** Fields of ids: the list with the names, and the resource whose `list` permission it requires. */
const USERS = ['/api/users/', 'users'] as const
const GROUPS = ['/api/user-groups/', 'user_groups'] as const
const CLASSES = ['/api/object-classes/', 'object_classes'] as const
const LISTS: { [alias: string]: readonly [string, string] } = {
  owners: USERS,
  members: USERS,
  users: USERS,
  user_groups: GROUPS,
  roles: ['/api/roles/', 'roles'],
  object_class: CLASSES,
  object_classes: CLASSES,
  related_object_class: CLASSES,
}

/** The maximum number of names that are read. */
const MOST = 3

export const isId = (alias: string, value: Json): boolean =>
  alias in LISTS && [value].flat().length > 0 && [value].flat().every((one) => typeof one === 'number')

/** The names of the ids of a field. Only the first ids have one. */
export function ByIds({ alias, value }: { alias: string; value: Json }) {
  const ids = [value].flat()
  return (
    <>
      {ids.slice(0, MOST).map((id, n) => (
        <span key={`${id}`}>
          {n > 0 && ', '}
          <ById alias={alias} id={Number(id)} />
        </span>
      ))}
      {ids.length > MOST && ` ${t('and-more', { count: ids.length - MOST })}`}
    </>
  )
}

function ById({ alias, id }: { alias: string; id: number }) {
  const [path, resource] = LISTS[alias] ?? USERS
  const mayList = resource === 'object_classes' || session()?.permissions?.[resource]?.list === true
  const { data } = useQuery({ ...page(path, `id=${id}&limit=1`), enabled: mayList })
  const [one] = data?.results ?? []
  return `${one?.full_name || one?.name || one?.username || `#${id}`}`
}

/** Returns the text of an option in a field of a resource; undefined if it is not an option. */
export function useOptionTexts(
  resource: string,
  resources: Resource[],
): (alias: string, value: Json) => string | undefined {
  const path = resources.find(({ name }) => name === resource)?.path
  const { data } = useQuery({ ...options(path ?? ''), enabled: path !== undefined })
  const { schema = [], ...variants } = data?.details ?? {}
  const all = [...schema, ...Object.values(variants).flatMap((one) => Object.values(one ?? {}).flat())] as Field[]
  return (alias, value) => {
    if (resource === 'object_class_fields' && alias === 'type') return t(`field-type.${value}.name` as Key)
    const values = all.find((field) => field.alias === alias && field.values)?.values
    return values?.find((choice) => choice.value === value)?.text
  }
}

/** The people or groups that an entry has added or removed. */
export function Added({ line }: { line: Instance }) {
  const entries = Object.entries((line.changes ?? {}) as { [alias: string]: Json })
  return entries.map(([alias, pair]) => {
    const [before, now] = (Array.isArray(pair) ? pair : []).map((one) => (Array.isArray(one) ? one : []))
    const ids = [...(now ?? []), ...(before ?? [])]
    return isId(alias, ids) && <ByIds key={alias} alias={alias} value={ids} />
  })
}

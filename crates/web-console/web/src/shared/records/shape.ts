// Records as flat instances for the generic parts: the values are beside the members of every instance. Aliases cannot
// conflict, since the API reserves these names.

import type { Column, Field, Fields, FileLabel, Instance, Json, Options } from '../../api/shapes.ts'
import type { Shape } from '../../generic/resource.ts'
import { sizeOf } from '../../generic/save.ts'
import { t } from '../../texts.ts'

const isObject = (value: Json | undefined): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A number that an autocomplete finds is the id of a related record. */
const typed = <T extends Column | Field>(one: T): T =>
  one.type === 'integer' && one.autocomplete ? { ...one, type: 'relation' } : one

/** The class of the records at which a relation points. */
export const relatedClass = ({ autocomplete }: Column | Field): number | undefined => {
  const id = autocomplete?.match(/^\/api\/object-classes\/(\d+)\/object-records\//)?.[1]
  return id ? Number(id) : undefined
}

const search = (): Column => ({
  alias: 'search',
  type: 'string',
  predicates: ['exact'],
  sort_ok: false,
  label: t('records.words'),
  is_parameter: true,
})

function options(described: Options): Options {
  const schema = described.details.schema.flatMap((field) =>
    field.alias === 'fields' ? (field.schema ?? []).map(typed) : [field],
  )
  return {
    ...described,
    list: { columns: [...(described.list?.columns ?? []).map(typed), search()] },
    details: { ...described.details, schema },
  }
}

/** The files of a flat record. */
export const filesOf = (instance: Instance): { [id: string]: FileLabel } =>
  ((instance._meta as Fields | undefined)?.files ?? {}) as unknown as { [id: string]: FileLabel }

/** A file as a list shows it: one with its size, several by their names. */
const fileText = (id: string, file: Fields | undefined, count: number) =>
  file && count === 1 && file.size ? `${file.name} (${sizeOf(Number(file.size))})` : `${file?.name ?? id}`

function instance(record: Instance): Instance {
  if (!isObject(record.fields)) return record
  const { fields, _meta, ...metaMembers } = record
  const meta = (_meta ?? {}) as Fields
  const given = (isObject(meta.labels) ? meta.labels : {}) as Fields
  const files = (isObject(given.files) ? given.files : {}) as Fields
  const labels: Fields = { ...((given.fields as Fields | undefined) ?? {}), object_class: given.object_class ?? null }
  for (const [alias, value] of Object.entries(fields as Fields)) {
    if (Array.isArray(value) && value.length > 0 && value.every((id) => typeof id === 'number'))
      labels[alias] = value.map((id) => fileText(`${id}`, files[`${id}`] as Fields | undefined, value.length))
  }
  return { ...(fields as Fields), ...metaMembers, _meta: { ...meta, labels, files } } as Instance
}

const BESIDE = ['owner', 'permission_sets', 'id']

function body(values: Fields): Fields {
  const own = Object.entries(values).filter(([alias]) => !BESIDE.includes(alias))
  const beside = Object.entries(values).filter(([alias]) => BESIDE.includes(alias))
  return { fields: Object.fromEntries(own), ...Object.fromEntries(beside) }
}

function messages({ fields, ...rest }: Fields): Fields {
  return isObject(fields) ? { ...rest, ...fields } : fields === undefined ? rest : { ...rest, non_field_errors: fields }
}

export const RECORD: Shape = { options, instance, body, messages }

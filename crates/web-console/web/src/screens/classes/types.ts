// The inputs for a field of a class, by its type.

import type { Field, Fields, Instance } from '../../api/shapes.ts'
import { optionsOf } from '../../shared/option-values.ts'

/** The inputs that each type adds to the common ones. */
const EXTRAS: { [type: string]: string[] } = {
  string: ['max_length', 'is_unique', 'is_indexed'],
  text: [],
  url: [],
  email: ['is_unique', 'is_indexed'],
  integer: ['min_value', 'max_value', 'is_unique', 'is_indexed'],
  decimal: ['precision', 'scale', 'is_unique', 'is_indexed'],
  boolean: ['is_unique', 'is_indexed'],
  date: ['is_unique', 'is_indexed'],
  datetime: ['is_unique', 'is_indexed'],
  enum: ['options', 'is_unique', 'is_indexed'],
  set: ['options'],
  status: ['options', 'initial', 'is_unique', 'is_indexed'],
  user: ['is_unique', 'is_indexed'],
  document: ['max_num_of_files'],
  relation: ['related_object_class', 'on_delete', 'is_unique', 'is_indexed'],
}

const COMMON = ['label', 'alias', 'type', 'description', 'is_required']

/** Fields that can be set at the creation only. */
const FIXED = ['alias', 'type', 'related_object_class']

/** The inputs that a type requires, although the schema of all types does not say so. */
const REQUIRED = ['options', 'initial', 'related_object_class']

/** The inputs that a field of the type needs, in the order of the form. */
export function inputsOf(schema: Field[], values: Fields, isNew: boolean): Field[] {
  const type = `${values.type ?? ''}`
  const extras = EXTRAS[type]
  const members = extras ? [...COMMON, ...extras, 'default'] : ['label', 'type']
  return members.flatMap((alias) => {
    if (!isNew && FIXED.includes(alias)) return []
    if (alias === 'default' && ['document', 'status'].includes(type)) return []
    const field = schema.find((one) => one.alias === alias)
    const isRequired = field?.required || REQUIRED.includes(alias)
    return field ? [{ ...field, required: isRequired === true }] : []
  })
}

/** The field that asks for a default, as records would ask for the value. */
export function defaultField(values: Fields, classPath: (id: number) => string): Field | undefined {
  const { type } = values
  const base = { alias: 'default', required: false, editable: true }
  const values_ = optionsOf(values.options).filter(({ value }) => value)
  switch (type) {
    case 'enum':
    case 'set':
      return values_.length > 0 ? { ...base, type, values: values_ } : undefined
    case 'user':
      return { ...base, type, autocomplete: '/api/users/autocomplete/?text__icontains=' }
    case 'relation':
      return typeof values.related_object_class === 'number'
        ? {
            ...base,
            type,
            autocomplete: `${classPath(values.related_object_class)}object-records/autocomplete/?text__icontains=`,
          }
        : undefined
    case 'text':
      return { ...base, type }
    case 'boolean':
      return { ...base, type: 'enum' }
    default:
      return { ...base, type: `${type}` }
  }
}

/** The rules of a field in few words, as far as they differ from those of its type. */
export function rulesOf(
  field: Instance,
): { rule: 'length' | 'range' | 'digits' | 'files' | 'options'; values: Fields }[] {
  switch (field.type) {
    case 'string':
      return field.max_length === 255 ? [] : [{ rule: 'length', values: { count: field.max_length ?? 0 } }]
    case 'integer': {
      const { min_value: low = null, max_value: high = null } = field
      return low === null && high === null ? [] : [{ rule: 'range', values: { from: low ?? '…', to: high ?? '…' } }]
    }
    case 'decimal':
      return [{ rule: 'digits', values: { count: field.precision ?? 20, scale: field.scale ?? 2 } }]
    case 'document':
      return [{ rule: 'files', values: { count: field.max_num_of_files ?? 1 } }]
    case 'enum':
    case 'set':
    case 'status':
      return [{ rule: 'options', values: { count: optionsOf(field.options).length } }]
  }
  return []
}

// The inputs of a field of a class that no schema describes: they follow from the type that was chosen.

import type { Choice, Fields } from '../../api/shapes.ts'
import { FieldInput } from '../../generic/input.tsx'
import type { InputProps, Inputs } from '../../generic/resource.ts'
import { Select } from '../../kit/fields.tsx'
import { optionsOf } from '../../shared/option-values.ts'
import { Options } from '../../shared/options.tsx'
import { type Key, labelOf, t } from '../../texts.ts'
import { defaultField } from './types.ts'

export const CLASSES = '/api/object-classes/'

/** The types with an example each. */
function Type({ field, name, value, onChange }: InputProps) {
  return (
    <Select
      name={name}
      label={t('field-type')}
      isRequired
      hint={value ? t(`field-type.${value}` as Key) : t('field-type.hint')}
      value={(value as string | null) ?? null}
      choices={(field.values ?? []).map((choice) => ({
        value: choice.value,
        text: t(`field-type.${choice.value}.name` as Key),
      }))}
      onChange={onChange}
    />
  )
}

function Default({ field, name, value, onChange, values }: InputProps) {
  const like = defaultField(values, (id) => `${CLASSES}${id}/`)
  if (!like) return null
  if (values.type === 'boolean') {
    const choices: Choice[] = [
      { value: 'yes', text: t('yes') },
      { value: 'no', text: t('no') },
    ]
    return (
      <Select
        name={name}
        label={labelOf(field)}
        hint={t('field.default.hint')}
        value={value === null ? null : value ? 'yes' : 'no'}
        choices={choices}
        onChange={(chosen) => onChange(chosen === null ? null : chosen === 'yes')}
      />
    )
  }
  return (
    <FieldInput
      field={{ ...like, label: labelOf(field), description: t('field.default.hint') }}
      name={name}
      value={value}
      onChange={(now) => onChange(now === '' || (Array.isArray(now) && now.length === 0) ? null : now)}
    />
  )
}

/** The option with which a record begins. */
function Initial({ field, name, value, onChange, values }: InputProps) {
  const choices = optionsOf(values.options).filter((option) => option.value)
  return (
    <Select
      name={name}
      label={t('field.initial')}
      isRequired={field.required}
      hint={t('field.initial.hint')}
      value={(value as string | null) ?? null}
      choices={choices.map((option) => ({ value: option.value, text: option.text || option.value }))}
      onChange={onChange}
    />
  )
}

function RelatedClass({ field, name, value, onChange }: InputProps) {
  return (
    <FieldInput
      field={{ ...field, type: 'relation', required: true, description: t('field.related_object_class.hint') }}
      name={name}
      value={value}
      onChange={onChange}
    />
  )
}

export const INPUTS: Inputs = {
  type: Type,
  default: Default,
  options: Options,
  initial: Initial,
  related_object_class: RelatedClass,
}

const HINTS: { [alias: string]: Key } = {
  alias: 'field.alias.hint',
  description: 'field.description.hint',
  is_required: 'field.is_required.hint',
  is_unique: 'field.is_unique.hint',
  is_indexed: 'field.is_indexed.hint',
  on_delete: 'field.on_delete.hint',
}

export const hintOf = (alias: string): string | undefined => {
  const key = HINTS[alias]
  return key && t(key)
}

/** The query for the number of records with a value in a field. */
export const filled = (classPath: string, { alias, type }: Fields): [string, string] => [
  `${classPath}object-records/`,
  type === 'status' ? 'limit=1' : `${alias}__isnull=false&limit=1`,
]

// The control for a field, by its schema.

import { useContext, useState } from 'react'
import { integerOf, parseJson, writeJson } from '../api/json.ts'
import { session } from '../api/session.ts'
import type { Choice, Field, Fields, Json, Reference } from '../api/shapes.ts'
import { useAdded } from '../kit/added.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { DateField } from '../kit/date-field.tsx'
import {
  Checkbox,
  Chooser,
  Fieldset,
  Lines,
  MultiChooser,
  NumberField,
  Radios,
  Select,
  TextField,
} from '../kit/fields.tsx'
import { MessagesContext, useHold } from '../kit/messages.ts'
import { isReference, nameOf } from '../kit/values.tsx'
import { labelOf, t } from '../texts.ts'
import { limit } from './limit.ts'

export interface Props {
  field: Field
  /** The dotted name of the field in the API's messages. */
  name: string
  value: Json | undefined
  onChange: (value: Json) => void
  /** Texts for ids, from `_meta.labels`. */
  label?: Json | undefined
  isDisabled?: boolean
  /** True if there is no stored secret that an empty input could leave. */
  isNew?: boolean
}

const timezone = () => session()?.user?.timezone ?? 'UTC'

/** The typed number. Any other text remains a text, which the API refuses with its message. */
function number(text: string, isDecimal: boolean): Json {
  const trimmed = text.trim()
  if (trimmed === '') return null
  return !isDecimal && /^-?\d{1,19}$/.test(trimmed) ? integerOf(trimmed) : trimmed
}

export function FieldInput(props: Props) {
  const { field, name, onChange, isDisabled = false, isNew = false } = props
  const value = props.value ?? null
  const common = {
    name,
    label: labelOf(field),
    hint: field.description || undefined,
    isRequired: field.required,
    isDisabled,
  }
  const text = ['string', 'number', 'bigint'].includes(typeof value) ? `${value}` : ''
  switch (field.type) {
    case 'boolean':
      return <Checkbox {...common} value={value === true} onChange={onChange} />
    case 'enum':
    case 'status': {
      const choices = field.values ?? []
      const choice = { ...common, value: value as Choice['value'] | null, choices }
      if (choices.length <= 6 && field.required) return <Radios {...choice} onChange={onChange} />
      if (choices.length <= 20) return <Select {...choice} onChange={onChange} />
      return <Chooser {...choice} onChange={(chosen) => onChange(chosen?.value ?? null)} />
    }
    case 'set':
      return <SetInput {...props} />
    case 'integer':
    case 'decimal':
    case 'user':
    case 'relation':
      if (field.autocomplete) return <OneInput {...props} />
      return (
        <NumberField {...common} value={text} onChange={(typed) => onChange(number(typed, field.type === 'decimal'))} />
      )
    case 'date':
    case 'datetime':
      return (
        <DateField {...common} hasTime={field.type === 'datetime'} zone={timezone()} value={text} onChange={onChange} />
      )
    case 'list':
      if (field.schema) return <Rows {...props} schema={field.schema} />
      return <Lines {...common} value={Array.isArray(value) ? value.map(String) : []} onChange={onChange} />
    case 'object':
      if (field.schema) return <Group {...props} schema={field.schema} />
      return <JsonInput {...props} />
    case 'json':
      return <JsonInput {...props} />
  }
  const longest = limit(field, 'max_length')
  const isLong =
    field.type === 'text' ||
    field.type === 'longtext' ||
    (field.type === 'string' &&
      longest !== undefined &&
      longest > 255 &&
      !field.write_only &&
      field.alias !== 'password')
  const isSecret = field.write_only === true || field.alias === 'password'
  const type = isSecret ? 'password' : field.type === 'email' || field.type === 'url' ? field.type : 'text'
  return (
    <TextField
      {...common}
      type={type}
      isLong={isLong}
      maxLength={longest}
      hint={common.hint ?? (isSecret ? t(isNew ? 'write-only.new' : 'write-only') : undefined)}
      autoComplete={isSecret ? 'new-password' : 'off'}
      value={text}
      onChange={onChange}
    />
  )
}

function OneInput({ field, name, value, label, onChange, isDisabled }: Props) {
  const [chosen, setChosen] = useState<Choice | null>(null)
  const id = isReference(value) ? (value as unknown as Reference).id : ((value ?? null) as Choice['value'] | null)
  const labelText = isReference(value)
    ? nameOf(value as unknown as Reference)
    : typeof label === 'string'
      ? label
      : undefined
  const text = chosen?.value === id ? chosen?.text : labelText
  return (
    <Chooser
      name={name}
      label={labelOf(field)}
      hint={field.description}
      isRequired={field.required}
      isDisabled={isDisabled}
      autocomplete={field.autocomplete}
      value={id}
      text={id === null ? '' : text}
      onChange={(choice) => {
        setChosen(choice)
        onChange(choice?.value ?? null)
      }}
    />
  )
}

function SetInput({ field, name, value, label, onChange, isDisabled }: Props) {
  const ids = (Array.isArray(value) ? value : []).map((item) =>
    isReference(item) ? (item as unknown as Reference).id : item,
  ) as Choice['value'][]
  const labels = Array.isArray(label) ? label : []
  const [texts, setTexts] = useState(() => {
    const named = (Array.isArray(value) ? value : []).map((item, n): [Choice['value'], string] => [
      ids[n] as Choice['value'],
      isReference(item)
        ? nameOf(item as unknown as Reference)
        : typeof labels[n] === 'string'
          ? labels[n]
          : `${ids[n]}`,
    ])
    return new Map(named)
  })
  const common = { name, label: labelOf(field), hint: field.description, isRequired: field.required, isDisabled }
  if (field.values && field.values.length <= 20) {
    return (
      <Fieldset {...common}>
        {field.values.map((choice) => (
          <label key={choice.value} className={css.check}>
            <input
              type="checkbox"
              name={name}
              checked={ids.includes(choice.value)}
              disabled={isDisabled}
              onChange={(event) =>
                onChange(event.target.checked ? [...ids, choice.value] : ids.filter((id) => id !== choice.value))
              }
            />
            {choice.text}
          </label>
        ))}
      </Fieldset>
    )
  }
  const textOf = (id: Choice['value']) =>
    texts.get(id) ?? field.values?.find((choice) => choice.value === id)?.text ?? `${id}`
  return (
    <MultiChooser
      {...common}
      autocomplete={field.autocomplete}
      choices={field.values}
      value={ids.map((id) => ({ value: id, text: textOf(id) }))}
      onChange={(chosen) => {
        setTexts(new Map([...texts, ...chosen.map((choice): [Choice['value'], string] => [choice.value, choice.text])]))
        onChange(chosen.map((choice) => choice.value))
      }}
    />
  )
}

function Group({ field, name, value, onChange, isDisabled, schema }: Props & { schema: Field[] }) {
  const members = (value && typeof value === 'object' && !Array.isArray(value) ? value : {}) as Fields
  return (
    <Fieldset name={name} label={labelOf(field)} hint={field.description}>
      {schema.map((member) => (
        <FieldInput
          key={member.alias}
          field={member}
          name={`${name}.${member.alias}`}
          value={members[member.alias]}
          isDisabled={isDisabled ?? false}
          onChange={(changed) => onChange({ ...members, [member.alias]: changed })}
        />
      ))}
    </Fieldset>
  )
}

/** Rows of a few fields each. */
function Rows({ field, name, value, onChange, isDisabled, schema }: Props & { schema: Field[] }) {
  const rows = (Array.isArray(value) ? value : []) as Fields[]
  const most = limit(field, 'max_items')
  const [list, add] = useAdded<HTMLDivElement>(rows.length)
  return (
    <Fieldset name={name} label={labelOf(field)} hint={field.description}>
      <div ref={list}>
        {rows.map((row, n) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: rows have no name of their own
          <div key={n} className={css.rows}>
            {schema.map((member) => (
              <FieldInput
                key={member.alias}
                field={member}
                name={`${name}.${n}.${member.alias}`}
                value={row[member.alias]}
                isDisabled={isDisabled ?? false}
                onChange={(changed) => onChange(rows.with(n, { ...row, [member.alias]: changed }))}
              />
            ))}
            <Button
              look="quiet"
              icon="trash-2"
              aria-label={t('remove-row', { number: n + 1 })}
              onPress={() => onChange(rows.toSpliced(n, 1))}
            />
          </div>
        ))}
      </div>
      <div>
        <Button
          icon="plus"
          isDisabled={isDisabled || rows.length === most}
          onPress={() => {
            add()
            onChange([...rows, {}])
          }}
        >
          {t('add-row')}
        </Button>
      </div>
    </Fieldset>
  )
}

/** JSON as a text. Invalid JSON remains as typed, and prevents submitting. */
function JsonInput({ field, name, value, onChange, isDisabled }: Props) {
  const [typed, setTyped] = useState(() => (value === null || value === undefined ? '' : writeJson(value, 2)))
  const [isWrong, setIsWrong] = useState(false)
  const [isLeft, setIsLeft] = useState(false)
  const enter = (text: string) => {
    setTyped(text)
    try {
      onChange(text.trim() ? parseJson(text) : null)
      setIsWrong(false)
    } catch {
      setIsWrong(true)
    }
  }
  useHold(name, isWrong ? t('no-json') : undefined)
  const messages = useContext(MessagesContext)
  return (
    <MessagesContext value={isWrong && isLeft ? { ...messages, [name]: t('no-json') } : messages}>
      <TextField
        name={name}
        label={labelOf(field)}
        hint={field.description ?? t('as-json')}
        isRequired={field.required}
        isDisabled={isDisabled}
        isLong
        value={typed}
        onChange={enter}
        onBlur={() => setIsLeft(true)}
      />
    </MessagesContext>
  )
}

import { useState } from 'react'
import type { Choice, Column, Json } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import { Select } from '../kit/fields.tsx'
import { labelOf, t } from '../texts.ts'
import type { Filter } from './address.ts'
import { predicateText } from './filters.tsx'
import look from './generic.module.css'
import { FieldInput } from './input.tsx'

/** The predicate and the value of one filter. */
export default function Editor({ filter, onDone }: { filter: Filter; onDone: (filter: Filter) => void }) {
  const { column } = filter
  const [predicate, setPredicate] = useState(filter.predicate)
  const [value, setValue] = useState(filter.value)
  const choices: Choice[] = column.predicates.map((name) => ({ value: name, text: predicateText(name) }))
  return (
    <form
      className={look.editing}
      onSubmit={(event) => {
        event.preventDefault()
        if (value !== '') onDone({ column, predicate, value })
      }}
    >
      {choices.length > 1 && (
        <Select
          name="predicate"
          label={labelOf(column)}
          isRequired
          value={predicate}
          choices={choices}
          onChange={(chosen) => setPredicate(`${chosen}`)}
        />
      )}
      <FilterValue column={column} predicate={predicate} value={value} onChange={setValue} />
      <Button type="submit" look="primary" isDisabled={value === ''}>
        {t('filter')}
      </Button>
    </form>
  )
}

function FilterValue({
  column,
  predicate,
  value,
  onChange,
}: {
  column: Column
  predicate: string
  value: string
  onChange: (value: string) => void
}) {
  const field = {
    alias: 'value',
    label: t('value'),
    required: true,
    type: column.type,
    ...(column.values && { values: column.values }),
    ...(column.autocomplete && { autocomplete: column.autocomplete }),
  }
  const plain = (now: Json) => onChange(Array.isArray(now) ? now.join(',') : now === null ? '' : `${now}`)
  if (column.type === 'boolean' || predicate === 'isnull') {
    const choices = [
      { value: 'true', text: t('yes') },
      { value: 'false', text: t('no') },
    ]
    return (
      <Select
        name="value"
        label={t('value')}
        isRequired
        value={value}
        choices={choices}
        onChange={(chosen) => onChange(`${chosen ?? ''}`)}
      />
    )
  }
  if (predicate === 'in') {
    const parts = value === '' ? [] : value.split(',')
    const ids = parts.map((part) => (/^\d+$/.test(part) ? Number(part) : part))
    return <FieldInput field={{ ...field, type: 'set' }} name="value" value={ids} onChange={plain} />
  }
  if (predicate === 'range')
    return (
      <FieldInput
        field={{ ...field, type: 'string', description: t('range-hint') }}
        name="value"
        value={value}
        onChange={plain}
      />
    )
  if (column.autocomplete)
    return (
      <FieldInput
        field={{ ...field, type: 'user' }}
        name="value"
        value={value === '' ? null : Number(value)}
        onChange={plain}
      />
    )
  const type = ['date', 'datetime', 'enum', 'status', 'integer'].includes(column.type) ? column.type : 'string'
  return <FieldInput field={{ ...field, type }} name="value" value={value} onChange={plain} />
}

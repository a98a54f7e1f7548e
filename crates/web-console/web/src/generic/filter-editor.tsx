import { useState } from 'react'
import { integerOf } from '../api/json.ts'
import type { Choice, Column, Field, Json } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import { textFound } from '../kit/choices.ts'
import { Checkbox, NumberField, Select } from '../kit/fields.tsx'
import { HoldContext, useHolds } from '../kit/messages.ts'
import { labelOf, t } from '../texts.ts'
import type { Filter } from './address.ts'
import { NOT_NULL, predicateText } from './filters.tsx'
import look from './generic.module.css'
import { FieldInput } from './input.tsx'
import { isDay, isMany, isPeople, LAST, ME, offeredBy, plainOf } from './relative.ts'

const isOfNull = (predicate: string) => predicate === 'isnull' || predicate === NOT_NULL

const kindOf = (column: Column, predicate: string) => {
  const plain = plainOf(predicate)
  return plain === LAST || isOfNull(plain) || plain === 'range' ? plain : `${isMany(column, plain)}`
}

/** The predicates to choose, with that of the filter itself, which may come from an address. */
function choicesOf(column: Column, current: string): Choice[] {
  const offered = offeredBy(column)
  const names = offered.includes(current) || current === NOT_NULL ? offered : [...offered, current]
  return names
    .flatMap((name) => (name === 'isnull' ? [name, NOT_NULL] : [name]))
    .map((name) => ({ value: name, text: predicateText(column, name) }))
}

/** The predicate and the value of one filter. */
export default function Editor({ filter, onDone }: { filter: Filter; onDone: (filter: Filter) => void }) {
  const { column } = filter
  const first = filter.predicate === 'isnull' && filter.value === 'false' ? NOT_NULL : filter.predicate
  const [predicate, setPredicate] = useState(first)
  const [value, setValue] = useState(filter.value)
  const choices = choicesOf(column, first)
  const { reasons, hold } = useHolds()
  const isHeld = Object.keys(reasons).length > 0
  const isWhole = isOfNull(predicate) || (value !== '' && (predicate !== LAST || /^\d{1,5}$/.test(value)) && !isHeld)
  const finish = () =>
    onDone(
      isOfNull(predicate)
        ? { column, predicate: 'isnull', value: `${predicate !== NOT_NULL}` }
        : { column, predicate, value },
    )
  return (
    <form
      className={look.editing}
      onSubmit={(event) => {
        event.preventDefault()
        if (isWhole) finish()
      }}
    >
      {choices.length > 1 && (
        <Select
          name="predicate"
          label={labelOf(column)}
          isRequired
          value={predicate}
          choices={choices}
          onChange={(chosen) => {
            // A value of another kind would be none of this one.
            if (kindOf(column, `${chosen}`) !== kindOf(column, predicate)) setValue(`${chosen}` === LAST ? '30' : '')
            setPredicate(`${chosen}`)
          }}
        />
      )}
      {!isOfNull(predicate) && (
        <HoldContext value={hold}>
          <FilterValue
            key={kindOf(column, predicate)}
            column={column}
            predicate={plainOf(predicate)}
            value={value}
            onChange={setValue}
          />
        </HoldContext>
      )}
      <Button type="submit" look="primary" isDisabled={!isWhole}>
        {t('filter')}
      </Button>
    </form>
  )
}

interface ValueProps {
  column: Column
  predicate: string
  value: string
  onChange: (value: string) => void
}

const plain = (now: Json) => (Array.isArray(now) ? now.join(',') : now === null ? '' : `${now}`)
const partsOf = (value: string) => (value === '' ? [] : value.split(','))

function FilterValue({ column, predicate, value, onChange }: ValueProps) {
  if (column.type === 'boolean') {
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
  if (predicate === LAST)
    return (
      <NumberField name="value" label={t('days')} hint={t('days.hint')} isRequired value={value} onChange={onChange} />
    )
  if (predicate === 'range') return <Between column={column} value={value} onChange={onChange} />
  if (isPeople(column)) return <People column={column} predicate={predicate} value={value} onChange={onChange} />
  return <Plain column={column} predicate={predicate} value={value} onChange={onChange} />
}

const fieldOf = (column: Column, type: string): Field => ({
  alias: 'value',
  label: t('value'),
  required: true,
  type,
  ...(column.values && { values: column.values }),
  ...(column.autocomplete && { autocomplete: column.autocomplete }),
})

function Plain({ column, predicate, value, onChange }: ValueProps) {
  const changeTo = (now: Json) => onChange(plain(now))
  const nameOfPart = (part: string) => (column.autocomplete && textFound(column.autocomplete, part)) ?? part
  if (isMany(column, predicate)) {
    const choiceValue = (part: string) => column.values?.find((choice) => `${choice.value}` === part)?.value
    const ids = partsOf(value).map((part) => choiceValue(part) ?? (/^\d+$/.test(part) ? integerOf(part) : part))
    const label = partsOf(value).map(nameOfPart)
    return <FieldInput field={fieldOf(column, 'set')} name="value" value={ids} label={label} onChange={changeTo} />
  }
  if (column.autocomplete) {
    const id = value === '' ? null : Number(value)
    return (
      <FieldInput
        field={fieldOf(column, 'user')}
        name="value"
        value={id}
        label={nameOfPart(value)}
        onChange={changeTo}
      />
    )
  }
  const type = isDay(column) || ['enum', 'status', 'integer'].includes(column.type) ? column.type : 'string'
  return <FieldInput field={fieldOf(column, type)} name="value" value={value} onChange={changeTo} />
}

/** The filter by users: the caller and others. */
function People(props: ValueProps) {
  const { column, predicate, value, onChange } = props
  const others = partsOf(value).filter((part) => part !== ME)
  const isMe = others.length < partsOf(value).length
  const set = (withMe: boolean, rest: string[]) => onChange([...(withMe ? [ME] : []), ...rest].join(','))
  const isOne = !isMany(column, predicate)
  return (
    <>
      <Checkbox name="me" label={t('me.among')} value={isMe} onChange={(now) => set(now, isOne ? [] : others)} />
      {!(isOne && isMe) && (
        <Plain {...props} value={others.join(',')} onChange={(rest) => set(isMe && !isOne, partsOf(rest))} />
      )}
    </>
  )
}

/** Two values of the column's type. The filter needs both. */
function Between({ column, value, onChange }: Omit<ValueProps, 'predicate'>) {
  const [ends, setEnds] = useState(() => [partsOf(value)[0] ?? '', partsOf(value)[1] ?? ''])
  const type = isDay(column) || column.type === 'integer' ? column.type : 'string'
  return (
    <>
      {['from', 'to'].map((end, n) => (
        <FieldInput
          key={end}
          field={{ alias: end, label: t(n === 0 ? 'value.from' : 'value.to'), required: true, type }}
          name={end}
          value={ends[n] ?? ''}
          onChange={(now) => {
            const next = ends.with(n, plain(now))
            setEnds(next)
            onChange(next.includes('') ? '' : next.join(','))
          }}
        />
      ))}
    </>
  )
}

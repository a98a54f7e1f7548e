// Filters as chips: each is a column, a predicate and a value. One that is half made is not sent.

import { useState } from 'react'
import type { Column, Instance } from '../api/shapes.ts'
import { Button, Menu, Popup } from '../kit/buttons.tsx'
import { textFound } from '../kit/choices.ts'
import css from '../kit/controls.module.css'
import { useShortcuts } from '../kit/keys.ts'
import { part } from '../kit/part.tsx'
import { dayText, isReference, momentText, nameOf } from '../kit/values.tsx'
import { type Key, labelOf, t } from '../texts.ts'
import { type Filter, type ListState, usualPredicate, withFilters } from './address.ts'
import { sayError } from './failure.tsx'
import look from './generic.module.css'
import { isDay, isExcluding, isMany, isPeople, LAST, ME, plainOf } from './relative.ts'

/** Controls are fetched when the first filter is made. */
const Editor = part(() => import('./filter-editor.tsx').then((module) => module.default))

const OF_DAYS = ['gt', 'gte', 'lt', 'lte']

/** `isnull=false` of the API as a predicate of its own. */
export const NOT_NULL = 'notnull'

const EXCLUDING: { [plain: string]: Key } = {
  exact: 'predicate.not.exact',
  in: 'predicate.not.in',
  icontains: 'predicate.not.icontains',
}

export function predicateText(column: Column, predicate: string): string {
  if (isExcluding(predicate)) {
    const plain = plainOf(predicate)
    const key = isMany(column, plain) && plain === 'exact' ? undefined : EXCLUDING[plain]
    return key ? t(key) : t('predicate.not', { predicate: predicateText(column, plain) })
  }
  if (isDay(column) && OF_DAYS.includes(predicate)) return t(`predicate.day.${predicate}` as Key)
  return t(predicate === 'exact' && isMany(column, predicate) ? 'predicate.exactly' : (`predicate.${predicate}` as Key))
}

/** The name of an id, from the rows that contain it or from an earlier choice. */
function nameOfId({ alias, autocomplete }: Column, part: string, lines: Instance[]): string | undefined {
  for (const { [alias]: value, _meta } of lines) {
    if (isReference(value) && `${value.id}` === part) return nameOf(value)
    const label = _meta?.labels?.[alias]
    if (`${value}` === part && typeof label === 'string') return label
  }
  return autocomplete && textFound(autocomplete, part)
}

/** A filter in words. */
function filterText(filter: Filter, lines: Instance[]): string {
  const { column, predicate, value } = filter
  const name = labelOf(column)
  if (predicate === 'isnull') return `${name} ${predicateText(column, value === 'false' ? NOT_NULL : predicate)}`
  return `${name} ${predicateText(column, predicate)} ${valueText(filter, lines)}`
}

function valueText({ column, predicate: whole, value }: Filter, lines: Instance[]): string {
  const predicate = plainOf(whole)
  if (column.type === 'boolean') return value === 'true' ? t('yes') : t('no')
  if (predicate === LAST) return t('last-days', { count: Number(value) })
  const parts = isMany(column, predicate) || predicate === 'range' ? value.split(',') : [value]
  const textOf = (part: string) =>
    shownAs(column, part) ??
    column.values?.find((choice) => `${choice.value}` === part)?.text ??
    (column.autocomplete ? nameOfId(column, part, lines) : undefined) ??
    part
  return predicate === 'range' && parts.length === 2
    ? t('from-to', { from: textOf(parts[0] ?? ''), to: textOf(parts[1] ?? '') })
    : parts.map(textOf).join(', ')
}

/** A date and time is in UTC in an address, and in the time zone of the reader on the page. */
function shownAs(column: Column, part: string): string | undefined {
  if (isPeople(column) && part === ME) return t('me.among')
  if (!isDay(column) || Number.isNaN(Date.parse(part))) return undefined
  return column.type === 'date' ? dayText(part.slice(0, 10)) : momentText(part)
}

/** A part of the address that is unknown to this list. */
const Unknown = ({ text, remove, onRemove }: { text: string; remove: string; onRemove: () => void }) => (
  <span className={look.chip}>
    <span className={css.tag} data-tone="warn">
      {text}
    </span>
    <button type="button" className={css.remove} aria-label={remove} onClick={onRemove}>
      {'×'}
    </button>
  </span>
)

interface FilterChipProps {
  filter: Filter
  lines: Instance[]
  onChange: (filter: Filter) => void
  onRemove: () => void
}

/** A filter in words, with its editor and a button that removes it. */
const FilterChip = ({ filter, lines, onChange, onRemove }: FilterChipProps) => (
  <span className={look.chip}>
    <Popup label={t('filter-by', { name: labelOf(filter.column) })} text={filterText(filter, lines)}>
      {(close) => (
        <Editor
          filter={filter}
          onDone={(changed) => {
            close()
            onChange(changed)
          }}
        />
      )}
    </Popup>
    <button
      type="button"
      className={css.remove}
      aria-label={t('remove-filter', { name: labelOf(filter.column) })}
      onClick={onRemove}
    >
      {'×'}
    </button>
  </span>
)

/** A filter that is not in the address yet. `onDone` gets undefined if its editor is closed. */
const AddedChip = ({ filter, onDone }: { filter: Filter; onDone: (filter: Filter | undefined) => void }) => (
  <span className={look.chip}>
    <Popup
      label={t('filter-by', { name: labelOf(filter.column) })}
      text={labelOf(filter.column)}
      isOpen
      onOpenChange={(isOpen) => isOpen || onDone(undefined)}
    >
      {() => <Editor filter={filter} onDone={onDone} />}
    </Popup>
  </span>
)

export interface MoreColumns {
  id: string
  text: string
  load: () => Promise<unknown>
}

export function Filters({
  state,
  columns,
  lines = [],
  more = [],
  onChange,
}: {
  state: ListState
  columns: Column[]
  /** The rows of the list. They give ids their names. */
  lines?: Instance[]
  /** An action that adds columns to filter by. The menu opens again when they are loaded. */
  more?: MoreColumns[]
  onChange: (state: ListState) => void
}) {
  const [isChoosing, setIsChoosing] = useState(false)
  /** The filter that the user is adding. It has a chip, but is not in the address yet. */
  const [added, setAdded] = useState<Filter | undefined>()
  useShortcuts([{ keys: 'f', text: t('add-filter'), run: () => setIsChoosing(true) }])
  const usable = columns.filter(({ predicates }) => predicates.length > 0)
  const set = (filters: Filter[]) => onChange(withFilters(state, filters))
  if (usable.length === 0) return null
  return (
    <div className={look.filters} role="group" aria-label={t('filters')}>
      {state.filters.map((filter, n) => (
        <FilterChip
          // biome-ignore lint/suspicious/noArrayIndexKey: the same filter may occur twice
          key={n}
          filter={filter}
          lines={lines}
          onChange={(changed) => set(state.filters.with(n, changed))}
          onRemove={() => set(state.filters.toSpliced(n, 1))}
        />
      ))}
      {state.unknown.map(([name, value]) => (
        <Unknown
          key={name}
          text={`${name}=${value} ${t('unknown-filter')}`}
          remove={t('remove-filter', { name })}
          onRemove={() => onChange({ ...state, unknown: state.unknown.filter(([one]) => one !== name) })}
        />
      ))}
      {state.unknownOrdering && (
        <Unknown
          text={`${state.unknownOrdering} ${t('unknown-order')}`}
          remove={t('remove-order', { name: state.unknownOrdering })}
          onRemove={() => onChange({ ...state, unknownOrdering: undefined })}
        />
      )}
      {added && (
        <AddedChip
          filter={added}
          onDone={(filter) => {
            setAdded(undefined)
            if (filter) set([...state.filters, filter])
          }}
        />
      )}
      <Menu
        label={t('add-filter')}
        icon="list-filter"
        text={t('add-filter')}
        isOpen={isChoosing}
        onOpenChange={setIsChoosing}
        actions={[
          ...usable.map((column) => ({
            id: column.alias,
            text: labelOf(column),
            run: () => setAdded({ column, predicate: usualPredicate(column), value: '' }),
          })),
          ...more.map(({ id, text, load }) => ({
            id,
            text,
            run: () => void load().then(() => setIsChoosing(true), sayError),
          })),
        ]}
      />
      {state.filters.length > 1 && (
        <Button look="quiet" onPress={() => set([])}>
          {t('remove-all-filters')}
        </Button>
      )}
    </div>
  )
}

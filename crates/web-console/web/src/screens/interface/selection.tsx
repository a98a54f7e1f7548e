// The controls for the selection of records of a class, its order and its columns.

import { useMemo, useState } from 'react'
import { get } from '../../api/request.ts'
import type { Instance } from '../../api/shapes.ts'
import { read, write } from '../../generic/address.ts'
import { sayError } from '../../generic/failure.tsx'
import { Filters } from '../../generic/filters.tsx'
import { type Selection, searchOf, selectionOf } from '../../generic/ui-contents.ts'
import { Chooser, Fieldset, MultiChooser, Select } from '../../kit/fields.tsx'
import { CLASSES, type OpenClass } from '../../shared/records/class.ts'
import { labelOf, t } from '../../texts.ts'

const AUTOCOMPLETE = `${CLASSES}autocomplete/?text__icontains=`

/** The choice of a class. The chosen class is read for its alias. */
export function ClassChooser({
  name,
  label,
  value = null,
  text,
  onChoose,
}: {
  name: string
  label: string
  value?: number | null
  text?: string
  onChoose: (one: Instance) => void
}) {
  /** Starts again after each choice that is not stored here. */
  const [round, setRound] = useState(0)
  return (
    <Chooser
      key={round}
      name={name}
      label={label}
      isRequired
      autocomplete={AUTOCOMPLETE}
      value={value}
      text={text ?? ''}
      onChange={(choice) => {
        if (!choice) return
        setRound(round + 1)
        get<Instance>(`${CLASSES}${choice.value}/`).then(onChoose, sayError)
      }}
    />
  )
}

export function FilterFields({
  name,
  openClass,
  filters,
  onChange,
}: {
  name: string
  openClass: OpenClass
  filters: string
  onChange: (filters: string) => void
}) {
  const { columns } = openClass
  const state = useMemo(() => read(searchOf({ filters, ordering: '', columns: [] }), columns), [filters, columns])
  return (
    <Fieldset name={name} label={t('filters')}>
      <Filters state={state} columns={columns} onChange={(next) => onChange(selectionOf(write(next)).filters)} />
    </Fieldset>
  )
}

export function SelectionFields<T extends Selection>({
  name,
  openClass,
  selection,
  onChange,
}: {
  name: string
  openClass: OpenClass
  selection: T
  onChange: (selection: T) => void
}) {
  const columns = openClass.columns.filter(({ is_parameter }) => !is_parameter)
  const choices = columns.map((column) => ({ value: column.alias, text: labelOf(column) }))
  const textOf = (alias: string) => choices.find(({ value }) => value === alias)?.text ?? alias
  const orders = columns
    .filter(({ sort_ok }) => sort_ok)
    .flatMap((column) => [
      { value: column.alias, text: t('interface.ordering.up', { name: labelOf(column) }) },
      { value: `-${column.alias}`, text: t('interface.ordering.down', { name: labelOf(column) }) },
    ])
  return (
    <>
      <FilterFields
        name={`${name}.filters`}
        openClass={openClass}
        filters={selection.filters}
        onChange={(filters) => onChange({ ...selection, filters })}
      />
      <Select
        name={`${name}.ordering`}
        label={t('interface.ordering')}
        value={selection.ordering}
        choices={orders}
        onChange={(ordering) => onChange({ ...selection, ordering: `${ordering ?? ''}` })}
      />
      <MultiChooser
        name={`${name}.columns`}
        label={t('interface.columns')}
        hint={t('interface.columns.hint')}
        choices={choices}
        value={selection.columns.map((alias) => ({ value: alias, text: textOf(alias) }))}
        onChange={(chosen) => onChange({ ...selection, columns: chosen.map(({ value }) => `${value}`) })}
      />
    </>
  )
}

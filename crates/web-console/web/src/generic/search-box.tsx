import { useEffect, useRef, useState } from 'react'
import type { Column } from '../api/shapes.ts'
import css from '../kit/controls.module.css'
import { useShortcuts } from '../kit/keys.ts'
import { t } from '../texts.ts'
import { type ListState, withFilters } from './address.ts'
import look from './generic.module.css'

/** Searches by one parameter a moment after the last key. */
export function SearchBox({
  state,
  parameter,
  columns,
  onChange,
}: {
  state: ListState
  parameter: string
  columns: Column[]
  onChange: (state: ListState) => void
}) {
  const [alias = '', predicate = 'exact'] = parameter.split('__')
  const column = columns.find((one) => one.alias === alias)
  const at = state.filters.findIndex((filter) => filter.column.alias === alias && filter.predicate === predicate)
  const current = state.filters[at]?.value ?? ''
  const [typed, setTyped] = useState(current)
  const box = useRef<HTMLInputElement>(null)
  const isTyping = useRef(false)
  useEffect(() => {
    if (!isTyping.current) setTyped(current)
  }, [current])
  useEffect(() => {
    if (!isTyping.current || typed === current || !column) return
    const timer = setTimeout(() => {
      isTyping.current = false
      const others = state.filters.filter((_, n) => n !== at)
      onChange(withFilters(state, typed ? [...others, { column, predicate, value: typed }] : others))
    }, 200)
    return () => clearTimeout(timer)
  })
  useShortcuts([{ keys: '/', text: t('search'), run: () => box.current?.focus() }])
  return (
    <input
      ref={box}
      type="search"
      className={`${css.input} ${look.search}`}
      placeholder={t('search')}
      aria-label={t('search')}
      value={typed}
      onChange={(event) => {
        isTyping.current = true
        setTyped(event.target.value)
      }}
    />
  )
}

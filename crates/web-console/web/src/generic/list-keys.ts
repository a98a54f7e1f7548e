// The list by keyboard.

import { type RefObject, useRef } from 'react'
import type { Instance } from '../api/shapes.ts'
import { type Shortcut, useShortcuts } from '../kit/keys.ts'
import { t } from '../texts.ts'
import { EDIT } from './editing.ts'
import { useGo } from './go.tsx'
import type { Selection } from './list-selection.ts'
import { keyOf, may, oneOf, type Resource, routeOf } from './resource.ts'

interface RowFocus {
  tableRef: RefObject<HTMLTableElement | null>
  /** The instance of the row that has the focus. */
  focusedRow: () => Instance | undefined
  /** Moves the focus by a number of rows. False if the table has no rows. */
  moveFocus: (step: number) => boolean
}

/** Moves the focus between the rows of a table. */
export function useRowFocus(resource: Resource, rows: Instance[]): RowFocus {
  const tableRef = useRef<HTMLTableElement>(null)
  return {
    tableRef,
    focusedRow: () => {
      const key = document.activeElement?.closest('tr')?.dataset.key
      return rows.find((row) => keyOf(resource, row) === key)
    },
    moveFocus: (step) => {
      const links = [...(tableRef.current?.querySelectorAll<HTMLElement>('tbody th a') ?? [])]
      const index = links.findIndex((link) => link.closest('tr')?.contains(document.activeElement))
      links[Math.min(Math.max(index + step, 0), links.length - 1)]?.focus()
      return links.length > 0
    },
  }
}

interface ListActions {
  resource: Resource
  focus: RowFocus
  selection: Selection
  canCreate: boolean
  canDelete: boolean
  onDelete: () => void
  onViews: () => void
}

/** Adds the shortcuts of a list. */
export function useListShortcuts(actions: ListActions) {
  const { resource, selection, canCreate, canDelete, onDelete, onViews } = actions
  const go = useGo()
  const { selected } = selection
  useShortcuts([
    ...(canDelete ? [{ text: `${t('selected', { count: selected.size })}: ${t('delete')}`, run: onDelete }] : []),
    ...(selected.size > 0 ? [{ text: t('select-none'), run: selection.clear }] : []),
    { keys: 'v', text: t('views'), run: onViews },
    ...rowShortcuts(actions, go),
    ...(canCreate
      ? [{ keys: 'c', text: t('create-one', { one: oneOf(resource) }), run: () => go(`${resource.route}/new`) }]
      : []),
  ])
}

/** The shortcuts that act on the row that has the focus. */
function rowShortcuts({ resource, focus, selection }: ListActions, go: (to: string) => void): Shortcut[] {
  const { focusedRow, moveFocus } = focus
  const extend = (step: number) => {
    const before = focusedRow()
    moveFocus(step)
    const both = [before, focusedRow()].filter((row) => row !== undefined)
    selection.add(both)
    return both.length > 0
  }
  const toggle = () => {
    const row = focusedRow()
    return row ? selection.toggle(keyOf(resource, row), row) : false
  }
  const edit = () => {
    const row = focusedRow()
    return row && may(row, 'edit') ? go(`${routeOf(resource, keyOf(resource, row))}?${EDIT}`) : false
  }
  return [
    ...['j', 'ArrowDown'].flatMap((keys) => [
      { keys, text: t('keys.next'), run: () => moveFocus(1) },
      { keys: `Shift+${keys}`, text: t('keys.extend-down'), run: () => extend(1) },
    ]),
    ...['k', 'ArrowUp'].flatMap((keys) => [
      { keys, text: t('keys.previous'), run: () => moveFocus(-1) },
      { keys: `Shift+${keys}`, text: t('keys.extend-up'), run: () => extend(-1) },
    ]),
    ...['x', 'Space'].map((keys) => ({ keys, text: t('keys.select'), run: toggle })),
    { keys: 'e', text: t('keys.edit'), run: edit },
  ]
}

// The selected rows of a list.

import { useEffect, useRef, useState } from 'react'
import { useUndisturbed } from '../api/query.ts'
import type { Instance } from '../api/shapes.ts'
import { keyOf, type Resource } from './resource.ts'

export interface Selection {
  /** The selected instances by their keys. */
  selected: Map<string, Instance>
  /** Selects or deselects a row; with `isRange` all rows between it and the row that was toggled before. */
  toggle: (key: string, instance: Instance, isRange?: boolean) => void
  /** Adds rows. */
  add: (instances: Instance[]) => void
  /** Selects only these rows. */
  replace: (instances: Instance[]) => void
  clear: () => void
}

/** Stores the selected rows. Another query of the list clears them. Nothing is refetched while a row is selected. */
export function useSelection(resource: Resource, rows: Instance[], parameters: string): Selection {
  const [selected, setSelected] = useState<Map<string, Instance>>(new Map())
  useEffect(() => {
    if (parameters) setSelected(new Map())
  }, [parameters])
  useUndisturbed(selected.size > 0)
  /** The key of the row that was toggled last, where a range begins. */
  const anchor = useRef<string | undefined>(undefined)
  // A row is drawn again only when it changes, so an older `toggle` must read the rows of now.
  const rowsNow = useRef(rows)
  rowsNow.current = rows
  const entryOf = (instance: Instance): [string, Instance] => [keyOf(resource, instance), instance]
  const rangeTo = (key: string, instance: Instance): Instance[] => {
    const indexOf = (rowKey: string | undefined) => rowsNow.current.findIndex((row) => keyOf(resource, row) === rowKey)
    const [first = -1, last = -1] = [indexOf(anchor.current), indexOf(key)].toSorted((a, b) => a - b)
    return first < 0 ? [instance] : rowsNow.current.slice(first, last + 1)
  }
  return {
    selected,
    toggle: (key, instance, isRange = false) => {
      const range = isRange ? rangeTo(key, instance) : [instance]
      anchor.current = key
      setSelected((before) => {
        const next = new Map(before)
        const wasSelected = next.has(key)
        for (const row of range) {
          if (wasSelected) next.delete(keyOf(resource, row))
          else next.set(...entryOf(row))
        }
        return next
      })
    },
    add: (instances) => setSelected((before) => new Map([...before, ...instances.map(entryOf)])),
    replace: (instances) => setSelected(new Map(instances.map(entryOf))),
    clear: () => setSelected(new Map()),
  }
}

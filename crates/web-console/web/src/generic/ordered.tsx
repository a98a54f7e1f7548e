// A list whose order is changed: by the buttons of each item, or by dragging it.

import { type DragEvent, type ReactNode, type RefObject, useEffect, useRef, useState } from 'react'
import css from '../kit/controls.module.css'
import { Icon } from '../kit/icons.tsx'
import { t } from '../texts.ts'
import look from './ordered.module.css'

export interface OrderedProps<T> {
  label: string
  items: T[]
  keyOf: (item: T, n: number) => string
  nameOf: (item: T) => string
  /** Puts the item at one place to another one, as it will be counted without the item. */
  onMove: (from: number, to: number) => void
  canMove?: boolean
  /** The list is a part of a longer one: its ends can be passed. */
  goesOn?: { up: boolean; down: boolean }
  /** The list itself. */
  listRef?: RefObject<HTMLOListElement | null>
  children: (item: T, n: number) => ReactNode
}

export function Ordered<T>(props: OrderedProps<T>) {
  const { label, items, keyOf, nameOf, onMove, canMove = true, goesOn, children } = props
  const own = useRef<HTMLOListElement>(null)
  const list = props.listRef ?? own
  const [dragged, setDragged] = useState<number | undefined>()
  const [over, setOver] = useState<number | undefined>()
  const [announcement, setAnnouncement] = useState('')
  /** The pressed button. The focus follows its item. */
  const pressed = useRef<{ key: string; step: -1 | 1 } | undefined>(undefined)
  useEffect(() => {
    const { key, step } = pressed.current ?? {}
    if (key === undefined || items.length === 0) return
    const row = [...(list.current?.children ?? [])].find((one) => (one as HTMLElement).dataset.key === key)
    const buttons = [...(row?.querySelectorAll<HTMLButtonElement>(':scope > [data-moves] > button') ?? [])]
    const candidates = step === -1 ? buttons : buttons.toReversed()
    if (document.activeElement === document.body || row?.contains(document.activeElement))
      candidates.find(({ disabled }) => !disabled)?.focus()
    pressed.current = undefined
  }, [items, list])
  const move = (from: number, to: number) => {
    const item = items[from]
    if (item === undefined || from === to) return
    setAnnouncement(t('ordered.moved', { name: nameOf(item), place: to + 1, of: items.length }))
    onMove(from, to)
  }
  const step = (n: number, by: -1 | 1) => {
    const item = items[n]
    if (item !== undefined) pressed.current = { key: keyOf(item, n), step: by }
    move(n, n + by)
  }
  const begin = (event: DragEvent<HTMLElement>, n: number) => {
    event.dataTransfer.effectAllowed = 'move'
    event.dataTransfer.setData('text/plain', '')
    const row = event.currentTarget.closest('li')
    if (row) event.dataTransfer.setDragImage(row, 8, 8)
    event.stopPropagation()
    setDragged(n)
  }
  const end = () => {
    setDragged(undefined)
    setOver(undefined)
  }
  return (
    <>
      <ol ref={list} className={look.list} aria-label={label}>
        {items.map((item, n) => {
          const key = keyOf(item, n)
          const name = nameOf(item)
          const side = dragged === undefined || over !== n ? undefined : dragged < n ? 'below' : 'above'
          return (
            <li
              key={key}
              data-key={key}
              className={look.row}
              data-over={side}
              data-dragged={dragged === n || undefined}
              onDragOver={(event) => {
                if (dragged === undefined) return
                event.preventDefault()
                event.stopPropagation()
                setOver(n)
              }}
              onDrop={(event) => {
                if (dragged === undefined) return
                event.preventDefault()
                event.stopPropagation()
                move(dragged, n)
                end()
              }}
            >
              {canMove && (
                <span
                  className={look.grip}
                  aria-hidden="true"
                  title={t('ordered.drag')}
                  draggable
                  onDragStart={(event) => begin(event, n)}
                  onDragEnd={end}
                >
                  <Icon name="grip-vertical" />
                </span>
              )}
              <div className={look.content}>{children(item, n)}</div>
              {canMove && (
                <span className={look.moves} data-moves="">
                  <button
                    type="button"
                    className={css.remove}
                    aria-label={t('move-up', { name })}
                    disabled={n === 0 && !goesOn?.up}
                    onClick={() => step(n, -1)}
                  >
                    <Icon name="arrow-up" />
                  </button>
                  <button
                    type="button"
                    className={css.remove}
                    aria-label={t('move-down', { name })}
                    disabled={n === items.length - 1 && !goesOn?.down}
                    onClick={() => step(n, 1)}
                  >
                    <Icon name="arrow-down" />
                  </button>
                </span>
              )}
            </li>
          )
        })}
      </ol>
      <span className="hidden" role="status">
        {announcement}
      </span>
    </>
  )
}

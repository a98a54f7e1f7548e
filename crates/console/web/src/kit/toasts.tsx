// What ended elsewhere, and what can be undone.

import { useSyncExternalStore } from 'react'
import { t } from '../texts.ts'
import css from './controls.module.css'

interface Toast {
  id: number
  text: string
  undo: (() => void) | undefined
}

let toasts: Toast[] = []
let next = 1
const listeners = new Set<() => void>()

function set(value: Toast[]) {
  toasts = value
  for (const listener of listeners) listener()
}

/** Says something in the corner for a while; what can be undone stays longer. */
export function say(text: string, undo?: () => void) {
  const toast = { id: next++, text, undo }
  set([...toasts.slice(-2), toast])
  setTimeout(() => set(toasts.filter(({ id }) => id !== toast.id)), undo ? 10_000 : 5_000)
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => toasts,
  )
  return (
    <div className={css.toasts} role="status" aria-live="polite">
      {shown.map(({ id, text, undo }) => (
        <div key={id} className={css.toast}>
          <span>{text}</span>
          {undo && (
            <button
              type="button"
              onClick={() => {
                set(toasts.filter((toast) => toast.id !== id))
                undo()
              }}
            >
              {t('undo')}
            </button>
          )}
        </div>
      ))}
    </div>
  )
}

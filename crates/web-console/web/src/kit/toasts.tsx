// Messages about actions that ended elsewhere or can be undone.

import { useSyncExternalStore } from 'react'
import { t } from '../texts.ts'
import css from './controls.module.css'

interface Toast {
  id: number
  text: string
  undo?: (() => void) | undefined
  /** Announced at once. */
  isError?: boolean
}

let toasts: Toast[] = []
let next = 1
const listeners = new Set<() => void>()

function set(value: Toast[]) {
  toasts = value
  for (const listener of listeners) listener()
}

/** Shows a message in the corner for a while. One with Undo or an error stays longer. */
export function say(text: string, more: Pick<Toast, 'undo' | 'isError'> = {}) {
  const toast = { id: next++, text, ...more }
  set([...toasts.slice(-2), toast])
  setTimeout(() => set(toasts.filter(({ id }) => id !== toast.id)), more.undo || more.isError ? 10_000 : 5_000)
}

export function Toasts() {
  const toastsNow = useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => toasts,
  )
  const toastView = ({ id, text, undo }: Toast) => (
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
  )
  return (
    <div className={css.toasts}>
      <div role="status">{toastsNow.filter(({ isError }) => !isError).map(toastView)}</div>
      <div role="alert">{toastsNow.filter(({ isError }) => isError).map(toastView)}</div>
    </div>
  )
}

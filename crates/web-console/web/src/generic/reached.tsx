// A form that could not reach the server: it checks whether the server can be reached again.

import { useEffect, useRef, useState } from 'react'
import { Refusal } from '../api/refusal.ts'
import css from '../kit/controls.module.css'
import { t } from '../texts.ts'
import { Failure } from './failure.tsx'

/** Milliseconds between two questions. */
const PAUSE = 3000
/** The smallest answer of the server that does not need a sign-in. */
const ASKED = '/console/'

/** True when the server can be reached again after a failed request. `onReached` is called once. */
export function useReached(error: unknown, onReached: () => void): boolean {
  const [reached, setReached] = useState<unknown>()
  const isAway = error instanceof Refusal && error.status === 0 && reached !== error
  const tell = useRef(onReached)
  tell.current = onReached
  useEffect(() => {
    if (!isAway) return
    let isAsking = false
    let isOver = false
    const ask = async () => {
      if (isAsking) return
      isAsking = true
      const answer = await fetch(ASKED, { method: 'HEAD' }).catch(() => undefined)
      isAsking = false
      if (!answer?.ok || isOver) return
      setReached(error)
      tell.current()
    }
    const checkAgain = () => void ask()
    const timer = setInterval(checkAgain, PAUSE)
    addEventListener('online', checkAgain)
    return () => {
      isOver = true
      clearInterval(timer)
      removeEventListener('online', checkAgain)
    }
  }, [isAway, error])
  return error !== undefined && reached === error
}

/** The failure of a form. If the server cannot be reached, it says what happens to the changes. */
export function Unreached({ error, isBack, isRepeatable }: { error: unknown; isBack: boolean; isRepeatable: boolean }) {
  if (!(error instanceof Refusal) || error.status !== 0) return <Failure error={error} />
  return (
    <div className={css.notice} data-tone={isBack ? 'warn' : 'danger'} role="alert">
      <p>{t(isBack ? 'failure.back' : 'failure.offline')}</p>
      {isRepeatable && !isBack && <p className={css.hint}>{t('failure.again-online')}</p>}
    </div>
  )
}

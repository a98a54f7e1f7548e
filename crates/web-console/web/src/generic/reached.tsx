// A form that could not be sent since the server was away: it is asked whether that is back.

import { useEffect, useRef, useState } from 'react'
import { Refusal } from '../api/refusal.ts'
import css from '../kit/controls.module.css'
import { t } from '../texts.ts'
import { Failure } from './failure.tsx'

/** Milliseconds between two questions. */
const PAUSE = 3000
/** The smallest answer of the server, for which nobody needs to be signed in. */
const ASKED = '/console/'

/** After a request that did not reach the server: whether it can be reached again, of which `onReached` is told once. */
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
    const again = () => void ask()
    const timer = setInterval(again, PAUSE)
    addEventListener('online', again)
    return () => {
      isOver = true
      clearInterval(timer)
      removeEventListener('online', again)
    }
  }, [isAway, error])
  return error !== undefined && reached === error
}

/** A failure of a form; of a server that could not be reached, what becomes of what was typed. */
export function Unreached({ error, isBack, isRepeatable }: { error: unknown; isBack: boolean; isRepeatable: boolean }) {
  if (!(error instanceof Refusal) || error.status !== 0) return <Failure error={error} />
  return (
    <div className={css.notice} data-tone={isBack ? 'warn' : 'danger'} role="alert">
      <p>{t(isBack ? 'failure.back' : 'failure.offline')}</p>
      {isRepeatable && !isBack && <p className={css.hint}>{t('failure.again-online')}</p>}
    </div>
  )
}

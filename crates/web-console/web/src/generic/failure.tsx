// Failures with a text that says what to do.

import { useEffect, useState } from 'react'
import { retryDelay } from '../api/query.ts'
import { Refusal } from '../api/request.ts'
import { session } from '../api/session.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { say } from '../kit/toasts.tsx'
import { type Key, named, t } from '../texts.ts'
import { messages } from './changes.ts'
import look from './generic.module.css'
import { missingRight } from './right.ts'

const TEXTS: { [status: number]: Key } = {
  0: 'failure.offline',
  403: 'failure.forbidden',
  404: 'failure.not-found',
  412: 'failure.changed',
  429: 'failure.too-many',
  502: 'failure.offline',
  503: 'failure.busy',
  504: 'failure.offline',
}

/** The failure in one sentence. */
export function failureText(error: unknown): string {
  if (!(error instanceof Refusal)) return t('failure.other')
  const key = TEXTS[error.status]
  if (key) return t(key)
  return error.detail ?? (Object.values(messages(error.body)).join(' ') || t('failure.other'))
}

/** Shows a failure as a message in the corner, for parts without a place of their own. */
export const sayError = (error: unknown) => say(failureText(error), { isError: true })

/** The seconds that are left of a time, in milliseconds, that began with the component. */
function useSeconds(time: number): number {
  const [end] = useState(() => Date.now() + time)
  const [now, setNow] = useState(() => Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [])
  return Math.max(0, Math.ceil((end - now) / 1000))
}

/** A countdown to the next attempt, by the user or by the console. */
function Again({ time, isByItself = false }: { time: number; isByItself?: boolean }) {
  const count = useSeconds(time)
  return <p className={css.hint}>{t(isByItself ? 'failure.again-in' : 'failure.try-in', { count })}</p>
}

function Forbidden({ refusal }: { refusal: Refusal }) {
  const right = missingRight(refusal.asked, session()?.permissions ?? {})
  if (!right) return <p>{t('failure.forbidden.by-role')}</p>
  const name = `${named('resource', right.resource)}: ${named('action', right.action)}`
  return (
    <>
      <p>{t('failure.forbidden.missing', { name })}</p>
      <p>{t(`failure.forbidden.by-${right.by}`)}</p>
    </>
  )
}

export function Failure({ error, onRetry }: { error: unknown; onRetry?: (() => void) | undefined }) {
  const refusal = error instanceof Refusal ? error : undefined
  const text = failureText(error)
  return (
    <div className={css.notice} data-tone="danger" role="alert">
      <p>{text}</p>
      {refusal?.status === 403 && <Forbidden refusal={refusal} />}
      {refusal?.detail && refusal.detail !== text && <p className={css.hint}>{refusal.detail}</p>}
      {refusal?.retryAfter && <Again key={refusal.requestId} time={refusal.retryAfter * 1000} />}
      {refusal?.requestId && <p className={css.hint}>{t('failure.request', { id: refusal.requestId })}</p>}
      {onRetry && (
        <div className={css.actions}>
          <Button onPress={onRetry}>{t('try-again')}</Button>
        </div>
      )}
    </div>
  )
}

/** The failure that replaces a whole page. */
export function FailurePage({
  title = t('failure.title'),
  ...props
}: {
  title?: string
  error: unknown
  onRetry?: () => void
}) {
  return (
    <>
      <h1 tabIndex={-1}>{title}</h1>
      <Failure {...props} />
    </>
  )
}

/** The state of a query. */
interface Query {
  error: unknown
  failureReason: unknown
  failureCount: number
  fetchStatus: 'fetching' | 'paused' | 'idle'
  refetch: () => unknown
}

/** True if the caller may not view this part of a page. It is then omitted without a message. */
export const isHidden = ({ data, error }: { data: unknown; error: unknown }) =>
  data === undefined && error instanceof Refusal && [403, 404].includes(error.status)

/**
 * The state of reading: nothing while it succeeds, else the next attempt or the failure. It replaces contents that were
 * never read, with the title of the page. It is above contents that were read, so that typed values remain.
 */
export function Reading({ of, title }: { of: Query[]; title?: string }) {
  const failed = of.filter(({ error }) => error)
  const [first] = failed
  const waiting = of.find(({ fetchStatus, failureCount }) => fetchStatus !== 'idle' && failureCount > 0)
  const isPaused = of.some(({ fetchStatus }) => fetchStatus === 'paused')
  if (!first && !waiting && !isPaused) return null
  const retry = () => {
    for (const query of failed) query.refetch()
  }
  return (
    <>
      {title !== undefined && <h1 tabIndex={-1}>{title}</h1>}
      <div className={look.reading}>
        {waiting || isPaused ? (
          <div className={css.notice} data-tone="warn">
            <p role="status">{failureText(isPaused ? new Refusal(0, {}, null, null) : waiting?.failureReason)}</p>
            {isPaused ? (
              <p className={css.hint}>{t('failure.again-online')}</p>
            ) : (
              waiting && (
                <Again
                  key={waiting.failureCount}
                  time={retryDelay(waiting.failureCount - 1, waiting.failureReason)}
                  isByItself
                />
              )
            )}
          </div>
        ) : (
          <Failure error={first?.error} onRetry={retry} />
        )}
      </div>
    </>
  )
}

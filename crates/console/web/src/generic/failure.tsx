// What went wrong, said so that somebody can act on it.

import { Refusal } from '../api/request.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { type Key, t } from '../texts.ts'

const TEXTS: { [status: number]: Key } = {
  0: 'failure.offline',
  403: 'failure.forbidden',
  404: 'failure.not-found',
  412: 'failure.changed',
  429: 'failure.too-many',
  503: 'failure.busy',
}

/** What went wrong, in one sentence. */
export function failureText(error: unknown): string {
  const refusal = error instanceof Refusal ? error : undefined
  const key = refusal && TEXTS[refusal.status]
  return key ? t(key) : (refusal?.detail ?? t('failure.other'))
}

export function Failure({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const refusal = error instanceof Refusal ? error : undefined
  const key = refusal ? TEXTS[refusal.status] : undefined
  return (
    <div className={css.notice} data-tone="danger" role="alert">
      <p>{failureText(error)}</p>
      {key && refusal?.detail && <p className={css.hint}>{refusal.detail}</p>}
      {refusal?.requestId && <p className={css.hint}>{t('failure.request', { id: refusal.requestId })}</p>}
      {onRetry && (
        <div className={css.actions}>
          <Button onPress={onRetry}>{t('try-again')}</Button>
        </div>
      )}
    </div>
  )
}

/** In place of a whole page. */
export function FailurePage(props: { error: unknown; onRetry?: () => void }) {
  return (
    <>
      <h1 tabIndex={-1}>{t('failure.title')}</h1>
      <Failure {...props} />
    </>
  )
}

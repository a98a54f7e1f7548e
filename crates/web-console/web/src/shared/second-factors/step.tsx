// One step of a dialog that adds a factor: its fields, its refusal and its buttons.

import { type ReactNode, useEffect, useRef, useState } from 'react'
import { Refusal } from '../../api/request.ts'
import { messages as messagesOf } from '../../generic/changes.ts'
import { Failure } from '../../generic/failure.tsx'
import { needsSignIn, SignInAgain } from '../../generic/recent-sign-in.tsx'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { MessagesContext } from '../../kit/messages.ts'
import { t } from '../../texts.ts'
import look from './second-factors.module.css'

export interface Sending {
  error: unknown
  isBusy: boolean
  /** Runs requests, and stores the refusal of one. */
  send: (run: () => Promise<void>) => void
}

export function useSending(): Sending {
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const send = (run: () => Promise<void>) => {
    if (isBusy) return
    setIsBusy(true)
    void run()
      .then(() => setError(undefined), setError)
      .finally(() => setIsBusy(false))
  }
  return { error, isBusy, send }
}

export function Step({
  sending: { error, isBusy },
  submit,
  onSubmit,
  onCancel,
  children,
}: {
  sending: Sending
  submit: string
  onSubmit: () => void
  onCancel: () => void
  children: ReactNode
}) {
  const form = useRef<HTMLFormElement>(null)
  const isOfField = error instanceof Refusal && error.status === 400 && error.detail === undefined
  useEffect(() => {
    if (isOfField && error) form.current?.querySelector('input')?.focus()
  }, [isOfField, error])
  return (
    <MessagesContext value={isOfField ? messagesOf(error.body) : {}}>
      <form
        ref={form}
        className={look.step}
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          event.stopPropagation()
          onSubmit()
        }}
      >
        {children}
        {needsSignIn(error) ? (
          <SignInAgain onSignedIn={onSubmit} />
        ) : (
          error !== undefined && !isOfField && <Failure error={error} />
        )}
        <div className={css.actions}>
          <Button type="submit" look="primary" isDisabled={isBusy}>
            {submit}
          </Button>
          <Button look="quiet" onPress={onCancel}>
            {t('cancel')}
          </Button>
        </div>
      </form>
    </MessagesContext>
  )
}

// A recent sign-in, which the API requires before some changes.

import { useEffect, useRef } from 'react'
import { Refusal } from '../api/request.ts'
import { onSignIn, openSignIn } from '../api/session.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { t } from '../texts.ts'

const REFUSED = 'Please sign in again.'

/** True for the refusal of a session that began too long ago. */
export const needsSignIn = (error: unknown): boolean =>
  error instanceof Refusal && error.status === 403 && error.detail === REFUSED

/** Asks for a sign-in in another window. `onSignedIn` repeats the refused request. */
export function SignInAgain({ onSignedIn }: { onSignedIn: () => void }) {
  const repeat = useRef(onSignedIn)
  repeat.current = onSignedIn
  useEffect(() => onSignIn(() => repeat.current()), [])
  return (
    <div className={css.notice} data-tone="warn" role="alert">
      <p>{t('recent-sign-in')}</p>
      <div className={css.actions}>
        <Button look="primary" onPress={openSignIn}>
          {t('sign-in.again')}
        </Button>
      </div>
    </div>
  )
}

import { useEffect } from 'react'
import { announceSignIn } from '../api/session.ts'
import { t } from '../texts.ts'

/** The end of a sign-in in a window of its own: the other tabs are told, and it closes. */
export function SignedIn() {
  useEffect(() => {
    announceSignIn()
    window.close()
  }, [])
  return <h1 tabIndex={-1}>{t('session.back')}</h1>
}

import { useEffect } from 'react'
import { t } from '../../texts.ts'

/** The end of a sign-in in a window of its own. The other tabs already have the session, so the window closes. */
export function SignedIn() {
  useEffect(() => {
    window.close()
  }, [])
  return <h1 tabIndex={-1}>{t('session.back')}</h1>
}

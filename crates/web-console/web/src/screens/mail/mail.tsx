// The mail settings, their test, and the preview of messages.

import { useState } from 'react'
import { call, Refusal } from '../../api/request.ts'
import { session } from '../../api/session.ts'
import type { Instance } from '../../api/shapes.ts'
import { Failure } from '../../generic/failure.tsx'
import look from '../../generic/generic.module.css'
import { serverOf, useSettings } from '../../generic/settings.ts'
import { Single } from '../../generic/single.tsx'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { MessagePreview } from '../../shared/message-preview.tsx'
import { Failed, Outcome } from '../../shared/outcome.tsx'
import { reasonOf } from '../../shared/reasons.ts'
import { t } from '../../texts.ts'

export function Mail() {
  const canEdit = session()?.permissions?.outbound_mail_setup?.edit === true
  return (
    <Single
      title="mail"
      name="outbound_mail_setup"
      path="/api/administration/smtp-settings/"
      canEdit={canEdit}
      isUnset={({ host }) => host === ''}
      names={{ username: 'mail.username' }}
      sections={[
        { title: 'section.server', fields: ['host', 'port', 'tls'] },
        { title: 'section.sign-in', fields: ['authorization_method', 'username', 'password', 'authentication_object'] },
        { title: 'section.addresses', fields: ['from_email', 'failure_email'] },
      ]}
      panels={canEdit ? [MailTest, MessagePreview] : [MessagePreview]}
    />
  )
}

/** Sends a message by the settings as they are stored, the password among them. */
function MailTest({ instance }: { instance: Instance }) {
  const [isSent, setIsSent] = useState(false)
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const [, change] = useSettings()
  const run = async () => {
    setIsBusy(true)
    setIsSent(false)
    setError(undefined)
    await call('POST', '/api/administration/smtp-settings/test/', { body: {} }).then(() => {
      setIsSent(true)
      change((now) => ({ guide: { ...now.guide, tested: serverOf(instance) } }))
    }, setError)
    setIsBusy(false)
  }
  const reason = error instanceof Refusal && error.detail ? reasonOf(error.detail) : undefined
  return (
    <section className={look.section}>
      <h2>{t('mail.test')}</h2>
      {instance.host === '' ? (
        <p className={look.none}>{t('mail.none')}</p>
      ) : (
        <>
          <p className={css.hint}>{t('mail.test.hint', { addresses: `${instance.failure_email}` })}</p>
          <div>
            <Button isDisabled={isBusy} onPress={() => void run()}>
              {t('mail.test.send')}
            </Button>
          </div>
        </>
      )}
      <div role="status">
        {isBusy && <p className={css.hint}>{t('mail.test.running')}</p>}
        {isSent && <Outcome isGood title={t('mail.test.sent')} />}
        {reason && error instanceof Refusal && <Failed kind="mail" message={`${error.detail}`} />}
      </div>
      {error !== undefined && !reason && <Failure error={error} />}
    </section>
  )
}

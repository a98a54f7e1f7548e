// The screens of the organisation: how people sign in, mail, company, limits, and what happened.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { anything } from '../api/query.ts'
import { call } from '../api/request.ts'
import { session } from '../api/session.ts'
import type { Fields, Instance } from '../api/shapes.ts'
import { Failure } from '../generic/failure.tsx'
import look from '../generic/generic.module.css'
import { Single } from '../generic/single.tsx'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { ForWhom, Select, TextField } from '../kit/fields.tsx'
import { named, t } from '../texts.ts'

const holds = (resource: string, action: string) => session()?.permissions?.[resource]?.[action] === true

export function Company() {
  return (
    <Single
      title="company"
      name="company_details"
      path="/api/administration/company-details/"
      sections={[
        {
          title: 'section.contact',
          fields: [
            'admin_first_name',
            'admin_last_name',
            'admin_job_title',
            'admin_email_address',
            'admin_phone_number',
            'admin_email_signature',
          ],
        },
      ]}
      panels={[MessagePreview]}
    />
  )
}

const MESSAGES = ['activation', 'reset', 'test', 'reminder', 'task_link']

/** The messages as they will look. */
function MessagePreview() {
  const [name, setName] = useState('activation')
  const preview = useQuery({
    queryKey: ['/api/administration/messages/preview/', name],
    queryFn: async () =>
      (
        await call<{ subject: string; text: string }>('POST', '/api/administration/messages/preview/', {
          body: { name },
        })
      ).data,
  })
  return (
    <section className={look.section}>
      <h2>{t('company.messages')}</h2>
      <Select
        name="message"
        label={t('company.message')}
        isRequired
        value={name}
        choices={MESSAGES.map((value) => ({ value, text: named('field', value) }))}
        onChange={(value) => setName(`${value ?? name}`)}
      />
      {preview.error && <Failure error={preview.error} />}
      {preview.data && (
        <article className={look.letter}>
          <h3>{preview.data.subject}</h3>
          <p className={look.written}>{preview.data.text}</p>
        </article>
      )}
    </section>
  )
}

export function Mail() {
  return (
    <Single
      title="mail"
      name="outbound_mail_setup"
      path="/api/administration/smtp-settings/"
      canEdit={holds('outbound_mail_setup', 'edit')}
      sections={[
        { title: 'section.server', fields: ['host', 'port', 'tls'] },
        { title: 'section.sign-in', fields: ['authorization_method', 'username', 'password', 'authentication_object'] },
        { title: 'section.addresses', fields: ['from_email', 'failure_email'] },
      ]}
      panels={holds('outbound_mail_setup', 'edit') ? [MailTest] : []}
    />
  )
}

/** Sends a message by the settings as they are; the password is asked for, since it is never told. */
function MailTest({ instance }: { instance: Instance }) {
  const [password, setPassword] = useState('')
  const [outcome, setOutcome] = useState<string | undefined>()
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const needsPassword = instance.authorization_method !== 'vendor_client_credentials'
  const run = async () => {
    setIsBusy(true)
    setOutcome(undefined)
    setError(undefined)
    const { username, port, tls, host, authorization_method, authentication_object } = instance
    const body = {
      username,
      port,
      tls,
      host,
      authorization_method,
      ...(needsPassword ? { password } : { authentication_object }),
    }
    await call<{ msg: string }>('POST', '/api/administration/smtp-settings/test/', { body }).then(
      ({ data }) => setOutcome(data.msg),
      setError,
    )
    setIsBusy(false)
  }
  return (
    <form
      className={look.section}
      onSubmit={(event) => {
        event.preventDefault()
        void run()
      }}
    >
      <h2>{t('mail.test')}</h2>
      <p className={css.hint}>{t('mail.test.hint')}</p>
      {needsPassword && <ForWhom />}
      {needsPassword && (
        <TextField
          name="test-password"
          label={t('field.password')}
          type="password"
          isRequired
          value={password}
          onChange={setPassword}
          autoComplete="off"
        />
      )}
      <div>
        <Button type="submit" isDisabled={isBusy}>
          {t('mail.test.send')}
        </Button>
      </div>
      <div role="status">
        {outcome && (
          <p className={css.notice} data-tone="ok">
            {outcome}
          </p>
        )}
      </div>
      {error !== undefined && <Failure error={error} />}
    </form>
  )
}

export function SignIn() {
  return (
    <Single
      title="sign-in"
      name="standard_authentication"
      path="/api/security/"
      sections={[
        { title: 'section.methods', fields: ['authentication_method'] },
        { title: 'section.complexity', fields: ['password_complexity'] },
        { title: 'section.passwords', fields: ['systemconf'] },
      ]}
      warning={(_, values) => {
        const methods = values.authentication_method as Fields | undefined
        if (methods?.super_admin !== 'sso') return null
        return (
          <p className={css.notice} data-tone="warn">
            {t('sign-in.last-way')}
          </p>
        )
      }}
    />
  )
}

interface Counted {
  count: number
  limit: number
}

/** Counters, nearest to full first. */
export function Limits() {
  const limits = useQuery(
    anything<{ [name: string]: Counted } & { additional_limits?: { [name: string]: number } }>('/api/limits/'),
  )
  if (limits.error) return <Failure error={limits.error} />
  if (!limits.data) return null
  const { additional_limits: more = {}, ...counted } = limits.data
  const all = Object.entries(counted as { [name: string]: Counted }).toSorted(
    ([, a], [, b]) => b.count / b.limit - a.count / a.limit,
  )
  return (
    <>
      <header className={look.head}>
        <h1 tabIndex={-1}>{t('limits')}</h1>
      </header>
      <div className={look.main}>
        <section className={look.section}>
          <h2>{t('limits.counted')}</h2>
          <dl className={look.facts}>
            {all.map(([name, { count, limit }]) => (
              <div key={name} className={look.fact}>
                <dt>{named('resource', name)}</dt>
                <dd>
                  <meter min={0} max={limit} high={limit * 0.9} value={count} aria-label={named('resource', name)} />{' '}
                  {t('count-of', { count, of: limit })}
                </dd>
              </div>
            ))}
          </dl>
        </section>
        <section className={look.section}>
          <h2>{t('limits.others')}</h2>
          <dl className={look.facts}>
            {Object.entries(more).map(([name, limit]) => (
              <div key={name} className={look.fact}>
                <dt>{named('resource', name)}</dt>
                <dd>{limit}</dd>
              </div>
            ))}
          </dl>
        </section>
      </div>
    </>
  )
}

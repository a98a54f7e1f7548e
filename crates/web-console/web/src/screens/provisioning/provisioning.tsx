// Provisioning by SCIM: how a directory connects, its tokens, and the accounts and groups that it manages.

import { useQuery } from '@tanstack/react-query'
import { page } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import type { Choice, Instance } from '../../api/shapes.ts'
import { Reading } from '../../generic/failure.tsx'
import look from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import type { InputProps } from '../../generic/resource.ts'
import css from '../../kit/controls.module.css'
import { Copyable } from '../../kit/copyable.tsx'
import { Select } from '../../kit/fields.tsx'
import { Credentials } from '../../shared/credentials.tsx'
import { type Key, labelOf, t } from '../../texts.ts'

const TOKENS = '/api/scim/tokens/'
const configurations = page('/api/single-sign-on/', 'limit=100&ordering=name')

/** The configuration of a token by its name. */
function Configuration({ credential: { single_sign_on: value } }: { credential: Instance }) {
  const { data } = useQuery(configurations)
  const found = data?.results.find(({ id }) => id === value)
  return (
    <>
      {`${t('scim-tokens.for')} `}
      <Link to={`/admin/single-sign-on/${value}`}>{`${found?.name ?? value}`}</Link>
    </>
  )
}

function ConfigurationInput({ field, name, value, onChange }: InputProps) {
  const { data } = useQuery(configurations)
  const choices = (data?.results ?? []).map((one): Choice => ({ value: Number(one.id), text: `${one.name}` }))
  return (
    <Select
      name={name}
      label={labelOf(field)}
      hint={t('scim-tokens.single-sign-on')}
      isRequired
      value={value as number | null}
      choices={choices}
      onChange={onChange}
    />
  )
}

function NoConfiguration() {
  return (
    <div className={css.notice} data-tone="warn">
      <p>{t('scim-tokens.no-configuration')}</p>
      <div className={css.actions}>
        <Link className={css.button} to="/admin/single-sign-on/new">
          {t('create-one', { one: t('single-sign-on.one') })}
        </Link>
      </div>
    </div>
  )
}

function Connecting() {
  return (
    <section className={look.section}>
      <h2>{t('section.connect')}</h2>
      <dl className={look.facts}>
        <dt>{t('provisioning.address')}</dt>
        <dd>
          <Copyable text={`${location.origin}/api/scim/v2`} />
        </dd>
        <dt>{'Entra ID'}</dt>
        <dd>{t('provisioning.entra')}</dd>
        <dt>{'Okta'}</dt>
        <dd>{t('provisioning.okta')}</dd>
      </dl>
    </section>
  )
}

/** The number of users or groups that a directory manages, as a link to their list. */
function Managed({ list, route, label }: { list: string; route: string; label: Key }) {
  const counted = useQuery(page(list, 'is_provisioned=true&limit=1'))
  const count = counted.data?.filtered_count
  if (typeof count !== 'number') return <Reading of={[counted]} />
  return (
    <>
      <dt>{t(label)}</dt>
      <dd>{count === 0 ? t('none') : <Link to={`${route}?is_provisioned=true`}>{`${count}`}</Link>}</dd>
    </>
  )
}

export function Provisioning() {
  const known = useQuery(configurations)
  const isSuper = ['super_admin', 'service_internal'].includes(`${session()?.user?.account_type}`)
  return (
    <>
      <header className={look.head}>
        <h1 tabIndex={-1}>{t('provisioning')}</h1>
      </header>
      <div className={look.main}>
        <p>{t('provisioning.text')}</p>
        {isSuper && (
          <Credentials
            path={TOKENS}
            texts="scim-tokens"
            Facts={Configuration}
            secret={{
              field: 'token',
              title: 'scim-tokens.shown',
              text: 'scim-tokens.shown.text',
              until: 'expires_at',
            }}
            initial={() => ({ expires_at: null })}
            inputs={{ single_sign_on: ConfigurationInput }}
            instead={known.data?.results.length === 0 ? <NoConfiguration /> : undefined}
          />
        )}
        <Connecting />
        <section className={look.section}>
          <h2>{t('provisioning.managed')}</h2>
          <p className={css.hint}>{t('provisioning.managed.hint')}</p>
          <dl className={look.facts}>
            <Managed list="/api/users/" route="/admin/users" label="users" />
            <Managed list="/api/user-groups/" route="/admin/groups" label="user-groups" />
          </dl>
        </section>
      </div>
    </>
  )
}

// What is one's own: details, password, sessions, linked sign-ins, how the console looks.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { page, wrote } from '../api/query.ts'
import { call } from '../api/request.ts'
import type { Instance } from '../api/shapes.ts'
import { Failure } from '../generic/failure.tsx'
import look from '../generic/generic.module.css'
import { Single } from '../generic/single.tsx'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { Moment, Tag } from '../kit/values.tsx'
import { type Key, t } from '../texts.ts'
import { browserName } from './browser-name.ts'
import { Identities } from './identities.tsx'
import { Password } from './password.tsx'
import { type Settings, useSettings } from './settings.ts'

const SECTIONS = [
  {
    title: 'section.person' as Key,
    fields: ['username', 'first_name', 'last_name', 'job_title', 'phone', 'mobile', 'timezone'],
  },
  {
    title: 'section.access' as Key,
    fields: ['account_type', 'roles', 'is_ip_restriction_enabled', 'allowed_ip_ranges'],
  },
]

export function Me() {
  return (
    <Single
      title="me"
      name="users"
      path="/api/users/me/"
      sections={SECTIONS}
      hidden={['next_actions']}
      canEdit
      panels={[Looks, OwnPassword, Sessions, OwnIdentities]}
    />
  )
}

/** How the console looks to its user. */
function Looks() {
  const [settings, change] = useSettings()
  const choice = <K extends keyof Settings>(name: K, values: [Settings[K], Key][]) => (
    <div role="radiogroup" aria-label={t(`look.${name}` as Key)} className={css.actions}>
      {values.map(([value, text]) => (
        <label key={`${value}`} className={css.check}>
          <input
            type="radio"
            name={name}
            checked={settings[name] === value}
            onChange={() => change({ [name]: value })}
          />
          {t(text)}
        </label>
      ))}
    </div>
  )
  return (
    <section className={look.section}>
      <h2>{t('look')}</h2>
      {choice('theme', [
        ['system', 'look.system'],
        ['light', 'look.light'],
        ['dark', 'look.dark'],
      ])}
      {choice('density', [
        ['compact', 'look.compact'],
        ['comfortable', 'look.comfortable'],
      ])}
      {choice('singleKeys', [
        [true, 'look.keys-on'],
        [false, 'look.keys-off'],
      ])}
    </section>
  )
}

const SESSIONS = '/api/users/me/sessions/'

/** The API tells agents from other programs by nothing but their names; browsers all begin theirs alike. */
const isBrowser = ({ user_agent }: Instance) => `${user_agent}`.startsWith('Mozilla/')

function Sessions() {
  const { data } = useQuery(page(SESSIONS, 'limit=100'))
  const [error, setError] = useState<unknown>()
  const end = async (id: unknown) => {
    setError(undefined)
    await call('DELETE', `${SESSIONS}${id}/`).catch(setError)
    await wrote(SESSIONS)
  }
  if (!data) return null
  const list = (title: Key, hint: Key, sessions: Instance[]) =>
    sessions.length > 0 && (
      <>
        <h3>{t(title)}</h3>
        <p className={css.hint}>{t(hint)}</p>
        <ul className={look.plain}>
          {sessions.map((one) => (
            <Session key={`${one.id}`} one={one} onEnd={() => void end(one.id)} />
          ))}
        </ul>
      </>
    )
  return (
    <section className={look.section}>
      <h2>{t('sessions')}</h2>
      {error !== undefined && <Failure error={error} />}
      {list('sessions.browsers', 'sessions.browsers.hint', data.results.filter(isBrowser))}
      {list(
        'sessions.programs',
        'sessions.programs.hint',
        data.results.filter((one) => !isBrowser(one)),
      )}
    </section>
  )
}

function Session({ one, onEnd }: { one: Instance; onEnd: () => void }) {
  const name = isBrowser(one) ? browserName(`${one.user_agent}`) : `${one.user_agent || t('program')}`
  return (
    <li className={look.member}>
      <span className={look.session}>
        <span title={`${one.user_agent}`}>{name}</span>
        <span className={look.when}>
          {`${one.ip} · `}
          {typeof one.last_used_at === 'string' && <Moment value={one.last_used_at} />}
        </span>
      </span>
      {one.is_current === true ? (
        <Tag value="active">{t('sessions.this')}</Tag>
      ) : (
        <Button look="quiet" aria-label={t('sessions.end-one', { name })} onPress={onEnd}>
          {t('sessions.end')}
        </Button>
      )}
    </li>
  )
}

const OwnPassword = () => <Password />
const OwnIdentities = () => <Identities path="/api/users/me/identities/" />

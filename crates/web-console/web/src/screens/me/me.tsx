// The page of the own account: details, password, sessions, linked sign-ins, settings.

import { setUser } from '../../api/session.ts'
import type { User } from '../../api/shapes.ts'
import look from '../../generic/generic.module.css'
import { type Settings, useSettings } from '../../generic/settings.ts'
import { Single } from '../../generic/single.tsx'
import css from '../../kit/controls.module.css'
import { Identities } from '../../shared/identities.tsx'
import { Password } from '../../shared/password.tsx'
import { SecondFactors } from '../../shared/second-factors/second-factors.tsx'
import { type Key, t } from '../../texts.ts'
import { Sessions } from './sessions.tsx'

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
      onSaved={(user) => setUser(user as unknown as User)}
      panels={[Looks, OwnPassword, SecondFactors, Sessions, OwnIdentities]}
    />
  )
}

/** The settings of the console for this user. */
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
            onChange={() => change(() => ({ [name]: value }))}
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

const OwnPassword = () => <Password />
const OwnIdentities = () => <Identities path="/api/users/me/identities/" />

// The rules for signing in: by which method, and how good a password must be.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { anything, page } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import type { Field, Fields, Instance, Json, Provider, User } from '../../api/shapes.ts'
import { isEqual } from '../../generic/changes.ts'
import { FieldInput } from '../../generic/input.tsx'
import type { InputProps } from '../../generic/resource.ts'
import { Single } from '../../generic/single.tsx'
import css from '../../kit/controls.module.css'
import { Fieldset, Select, TextField } from '../../kit/fields.tsx'
import { RuleList } from '../../shared/rule-list.tsx'
import { labelOf, named, t } from '../../texts.ts'
import { FactorRules } from './factor-rules.tsx'
import own from './sign-in.module.css'

/** Tries a password against the rules. The password is visible, because it must not be a real one. */
function Trial({ rules }: { rules: Fields }) {
  const [password, setPassword] = useState('')
  return (
    <div className={own.trial}>
      <RuleList password={password} rules={rules} />
      <TextField
        name="tried-password"
        label={t('sign-in.try')}
        hint={t('sign-in.try.hint')}
        isRequired
        value={password}
        onChange={setPassword}
      />
    </div>
  )
}

const Rules = ({ value }: { value: Json }) => <Trial rules={(value ?? {}) as Fields} />

/** Every member has a value, 0 among them. */
const required = (field: Field): Field => ({
  ...field,
  ...(field.schema && { schema: field.schema.map((member) => ({ ...member, required: true })) }),
})

/** The rules while they are edited, with the trial below them. */
function Complexity({ field, name, value, onChange }: InputProps) {
  return (
    <>
      <FieldInput field={required(field)} name={name} value={value} onChange={onChange} />
      <Trial rules={(value ?? {}) as Fields} />
    </>
  )
}

/** The method of each account type that can be chosen; service accounts have passwords. */
function Methods({ field, name, value, onChange }: InputProps) {
  const methods = (value ?? {}) as Fields
  return (
    <Fieldset name={name} label={labelOf(field)} isRequired>
      {field.schema
        ?.filter(({ editable }) => editable !== false)
        .map(({ alias, values }) => (
          <Select
            key={alias}
            name={`${name}.${alias}`}
            label={named('field', alias)}
            isRequired
            value={methods[alias] as string}
            choices={values ?? []}
            onChange={(method) => onChange({ ...methods, [alias]: method })}
          />
        ))}
    </Fieldset>
  )
}

const Conf = ({ field, name, value, onChange }: InputProps) => (
  <FieldInput field={required(field)} name={name} value={value} onChange={onChange} />
)

interface Ways {
  /** The number of enabled configurations for the sign-in; undefined until it is read. */
  providers: number | undefined
  /** The number of the caller's identities at providers. */
  identities: number | undefined
  hasPassword: boolean
}

/** The accounts that a change of the methods would lock out. */
function closed(before: Fields, methods: Fields, { providers, identities, hasPassword }: Ways): string[] {
  const changed = Object.keys(methods).filter((type) => !isEqual(before[type] ?? null, methods[type] ?? null))
  const by = (method: Json) => changed.filter((type) => methods[type] === method).map((type) => named('field', type))
  const names = (list: string[]) => list.join(', ')
  const warnings: string[] = []
  const bySso = by('sso')
  const byPassword = by('password')
  if (bySso.length > 0)
    warnings.push(t(providers === 0 ? 'sign-in.no-provider' : 'sign-in.sso-alone', { names: names(bySso) }))
  if (byPassword.length > 0) warnings.push(t('sign-in.password-alone', { names: names(byPassword) }))
  const mine = session()?.user?.account_type ?? ''
  if (changed.includes(mine) && methods[mine] === 'sso' && identities === 0) warnings.push(t('sign-in.not-linked'))
  if (changed.includes(mine) && methods[mine] === 'password' && !hasPassword) warnings.push(t('sign-in.no-password'))
  return warnings
}

/** Warns before a change removes the last way to sign in. */
function LastWay({ before, methods }: { before: Fields; methods: Fields }) {
  const isChanged = !isEqual(before, methods)
  const providers = useQuery({ ...anything<Provider[]>('/api/single-sign-on/login/'), enabled: isChanged })
  const identities = useQuery({ ...page('/api/users/me/identities/', 'limit=1'), enabled: isChanged })
  const me = useQuery({ ...anything<User & Instance>('/api/users/me/'), enabled: isChanged })
  const warnings = closed(before, methods, {
    providers: providers.data?.length,
    identities: identities.data?.results.length,
    hasPassword: me.data === undefined || me.data.password_set_at !== null,
  })
  return (
    <div role="status">
      {warnings.length > 0 && (
        <div className={css.notice} data-tone="warn">
          {warnings.map((warning) => (
            <p key={warning}>{warning}</p>
          ))}
        </div>
      )}
    </div>
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
        { title: 'section.complexity', fields: ['password_complexity'], hint: 'sign-in.rules.hint' },
        { title: 'section.passwords', fields: ['systemconf'] },
      ]}
      inputs={{ authentication_method: Methods, password_complexity: Complexity, systemconf: Conf }}
      views={{ password_complexity: Rules }}
      panels={[FactorRules]}
      warning={(before, values) => (
        <LastWay
          before={(before.authentication_method ?? {}) as Fields}
          methods={(values.authentication_method ?? {}) as Fields}
        />
      )}
    />
  )
}

// Credentials of programs: a list with the last use of each, a new one whose text is shown once, and their revocation.

import { useQuery } from '@tanstack/react-query'
import { type ComponentType, type ReactNode, useState } from 'react'
import { invalidate, options, page } from '../api/query.ts'
import { call } from '../api/request.ts'
import type { Field, Fields, Instance, Reference } from '../api/shapes.ts'
import { AskFirst } from '../generic/ask-first.tsx'
import { isEqual } from '../generic/changes.ts'
import { Reading } from '../generic/failure.tsx'
import { FormDialog } from '../generic/form-dialog.tsx'
import look from '../generic/generic.module.css'
import type { Inputs, Secret } from '../generic/resource.ts'
import { type Shown, ShownOnce, shownOnce } from '../generic/shown-once.tsx'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { say } from '../kit/toasts.tsx'
import { Moment, nameOf, Tag } from '../kit/values.tsx'
import { type Key, t } from '../texts.ts'

export interface CredentialsProps {
  path: string
  /** Names of the texts of this kind: `{texts}`, `{texts}.hint`, `{texts}.none`, `{texts}.new`, `{texts}.revoke`. */
  texts: 'api-keys' | 'scim-tokens'
  /** What a credential of this kind has beside its name, its end and its use. */
  Facts: ComponentType<{ credential: Instance }>
  secret: Secret
  /** The values of a new form. */
  initial: () => Fields
  inputs: Inputs
  /** Replaces the button for a new one, if there can be none yet. */
  instead?: ReactNode
}

/** The order of the inputs: what may be long is last. */
const ORDER = ['name', 'single_sign_on', 'expires_at', 'permissions']

/** At most twenty exist of any kind. */
const ALL = 'limit=25&ordering=name'

export function Credentials({ path, texts, Facts, secret, instead, ...props }: CredentialsProps) {
  const described = useQuery(options(path))
  const list = useQuery(page(path, ALL))
  const [isCreating, setIsCreating] = useState(false)
  const [shown, setShown] = useState<Shown | undefined>()
  const [revoking, setRevoking] = useState<Instance | undefined>()
  const text = (name: string) => t(`${texts}${name}` as Key)
  const revoke = async ({ id, name }: Instance) => {
    await call('DELETE', `${path}${id}/`)
    setRevoking(undefined)
    say(t('credentials.revoked', { name: `${name}` }))
    await invalidate(path)
  }
  const lines = list.data?.results ?? []
  const schema = described.data?.details.schema
  return (
    <section className={look.section}>
      <h2>{text('')}</h2>
      <p className={css.hint}>{text('.hint')}</p>
      <Reading of={[described, list]} />
      {list.data && lines.length === 0 && <p className={look.none}>{text('.none')}</p>}
      {lines.length > 0 && (
        <ul className={look.plain}>
          {lines.map((line) => (
            <li key={`${line.id}`} className={look.member}>
              <span className={look.session}>
                <span>{`${line.name}`}</span>
                <Use credential={line} />
                <span className={look.when}>
                  <Facts credential={line} />
                </span>
              </span>
              <Button
                look="quiet"
                aria-label={t('credentials.revoke-one', { name: `${line.name}` })}
                onPress={() => setRevoking(line)}
              >
                {t('credentials.revoke')}
              </Button>
            </li>
          ))}
        </ul>
      )}
      {instead ?? (
        <div>
          <Button icon="plus" onPress={() => setIsCreating(true)}>
            {text('.new')}
          </Button>
        </div>
      )}
      {isCreating && schema && (
        <New
          {...props}
          path={path}
          title={text('.new')}
          fields={ORDER.flatMap((alias) => schema.find((field) => field.alias === alias) ?? [])}
          onCreated={(answer) => {
            setIsCreating(false)
            setShown(shownOnce(secret, answer))
          }}
          onDone={() => setIsCreating(false)}
        />
      )}
      {shown && <ShownOnce secret={shown} onClose={() => setShown(undefined)} />}
      {revoking && (
        <AskFirst
          title={t('ask', { action: t('credentials.revoke'), name: `${revoking.name}` })}
          text={text('.revoke')}
          action={t('credentials.revoke')}
          run={() => revoke(revoking)}
          onClose={() => setRevoking(undefined)}
        />
      )}
    </section>
  )
}

interface NewProps extends Pick<CredentialsProps, 'path' | 'initial' | 'inputs'> {
  title: string
  fields: Field[]
  onCreated: (answer: Fields) => void
  onDone: () => void
}

function New({ path, title, fields, initial, inputs, onCreated, onDone }: NewProps) {
  const [before] = useState(initial)
  const [values, setValues] = useState<Fields>(before)
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const create = async () => {
    setIsBusy(true)
    try {
      const { data } = await call<Fields>('POST', path, { body: values })
      void invalidate(path)
      onCreated(data)
    } catch (refused) {
      setError(refused)
      setIsBusy(false)
    }
  }
  return (
    <FormDialog
      title={title}
      isWide={fields.some(({ alias }) => alias === 'permissions')}
      fields={fields}
      sections={[]}
      values={values}
      inputs={inputs}
      error={error}
      isBusy={isBusy}
      isChanged={!isEqual(before, values)}
      submit={t('create')}
      onChange={(alias, value) => setValues((now) => ({ ...now, [alias]: value }))}
      onSubmit={() => void create()}
      onDone={onDone}
    />
  )
}

/** The last use, the end and the creator of a credential. An expired one says so. */
function Use({ credential: { last_used_at: used, expires_at: end, created_by: by } }: { credential: Instance }) {
  const isOver = typeof end === 'string' && new Date(end).getTime() <= Date.now()
  return (
    <span className={look.when}>
      {typeof used === 'string' ? (
        <>
          {`${t('credentials.used')} `}
          <Moment value={used} />
        </>
      ) : (
        t('credentials.unused')
      )}
      {' · '}
      {typeof end === 'string' ? (
        <>
          {`${t('credentials.until')} `}
          <Moment value={end} />
        </>
      ) : (
        t('credentials.unlimited')
      )}
      {by && ` · ${t('credentials.by', { name: nameOf(by as unknown as Reference) })}`}
      {isOver && (
        <>
          {' '}
          <Tag value="expired">{t('credentials.expired')}</Tag>
        </>
      )}
    </span>
  )
}

// One repository: the state of its import, and its actions.

import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { instance as instanceQuery, invalidate, options } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import { session } from '../../api/session.ts'
import type { Fields, Instance, Json } from '../../api/shapes.ts'
import { AskFirst } from '../../generic/ask-first.tsx'
import { messages } from '../../generic/changes.ts'
import { Reading } from '../../generic/failure.tsx'
import { FormDialog } from '../../generic/form-dialog.tsx'
import look from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { say } from '../../kit/toasts.tsx'
import { Moment, Tag } from '../../kit/values.tsx'
import { COMPONENTS, invalidateLog, invalidateRepository, REPOSITORIES, ROUTE } from '../../shared/components/known.ts'
import type { Known } from '../../shared/components/log.ts'
import { t } from '../../texts.ts'

const PAUSE = 3000

export const mayChange = (action: 'create' | 'edit') => session()?.permissions?.custom_component?.[action] === true

/** A repository, read repeatedly while its import runs. A hidden page does not read. */
export function useRepository(id: number) {
  const read = useQuery({
    ...instanceQuery(`${REPOSITORIES}${id}/`),
    refetchInterval: ({ state }) => (state.data?.instance.status === 'processing' ? PAUSE : false),
  })
  const status = read.data?.instance.status
  const before = useRef(status)
  useEffect(() => {
    // The state of an import is also part of the component.
    if (before.current === 'processing' && status !== 'processing') void invalidate(COMPONENTS)
    before.current = status
  }, [status])
  return read
}

export function RepositoryState({ repository }: { repository: Instance }) {
  const { status, errors } = repository
  const errorTexts = Object.entries(status === 'failed' ? messages((errors ?? {}) as Fields) : {})
  return (
    <>
      <p role="status">
        <Tag value={`${status}`}>{t(`repositories.status.${status as 'processing' | 'imported' | 'failed'}`)}</Tag>
      </p>
      {errorTexts.length > 0 && (
        <div className={css.notice} data-tone="danger">
          <p>{t('repositories.failed')}</p>
          <ul className={look.problems}>
            {errorTexts.map(([place, text]) => (
              <li key={place}>{place === 'repository_url' ? text : `${place}: ${text}`}</li>
            ))}
          </ul>
        </div>
      )}
    </>
  )
}

/** One line of the list. */
export function Repository({ id, address, component }: Known) {
  const read = useRepository(id)
  const [openDialog, setOpenDialog] = useState<'import' | 'delete' | undefined>()
  const repository = read.data?.instance
  return (
    <li className={look.section}>
      <h2>{address}</h2>
      <Reading of={[read]} />
      {repository && (
        <>
          <RepositoryState repository={repository} />
          <dl className={look.facts}>
            <RepositoryFacts repository={repository} />
            <dt>{t('repositories.used-by')}</dt>
            <dd>
              {component ? (
                <Link to={`${ROUTE}/${component.id}`}>{component.name}</Link>
              ) : (
                <span className={look.none}>{t('repositories.unused')}</span>
              )}
            </dd>
          </dl>
          {mayChange('edit') && (
            <div className={css.actions}>
              <Button
                aria-label={t('repositories.import-again-one', { name: address })}
                onPress={() => setOpenDialog('import')}
              >
                {t('repositories.import-again')}
              </Button>
              {!component && (
                <Button
                  look="quiet"
                  icon="trash-2"
                  aria-label={t('delete-one', { name: address })}
                  onPress={() => setOpenDialog('delete')}
                >
                  {t('delete')}
                </Button>
              )}
            </div>
          )}
          {openDialog === 'import' && <ImportAgain repository={repository} onDone={() => setOpenDialog(undefined)} />}
        </>
      )}
      {openDialog === 'delete' && (
        <AskFirst
          title={t('ask', { action: t('delete'), name: address })}
          text={t('repositories.deletes')}
          action={t('delete')}
          run={async () => {
            await call('DELETE', `${REPOSITORIES}${id}/`)
            setOpenDialog(undefined)
            say(t('deleted'))
            await invalidateLog()
          }}
          onClose={() => setOpenDialog(undefined)}
        />
      )}
    </li>
  )
}

export function RepositoryFacts({ repository }: { repository: Instance }) {
  const { version, publisher, imported_at, username } = repository
  return (
    <>
      {typeof version === 'string' && (
        <>
          <dt>{t('section.version')}</dt>
          <dd>{t('repositories.version', { version, publisher: `${publisher}` })}</dd>
        </>
      )}
      {typeof imported_at === 'string' && (
        <>
          <dt>{t('repositories.imported-at')}</dt>
          <dd>
            <Moment value={imported_at} />
          </dd>
        </>
      )}
      <dt>{t('repositories.asked-as')}</dt>
      <dd>{`${username}`}</dd>
    </>
  )
}

/** A form in a dialog over the fields that the API names for a repository. */
function RepositoryForm({
  title,
  submit,
  above,
  names,
  send,
  onDone,
}: {
  title: string
  submit: string
  above?: string
  /** Only these fields are sent, and each is optional. */
  names?: string[]
  send: (values: Fields) => Promise<void>
  onDone: () => void
}) {
  const described = useQuery(options(REPOSITORIES))
  const [values, setValues] = useState<Fields>({})
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const all = described.data?.details.schema ?? []
  const fields = (names ? all.filter(({ alias }) => names.includes(alias)) : all).map((field) => ({
    ...field,
    required: !names,
    ...(field.alias === 'token' && { write_only: true }),
  }))
  const isFilled = (value: Json) => value !== '' && value !== null
  const save = () => {
    setIsBusy(true)
    send(Object.fromEntries(Object.entries(values).filter(([, value]) => isFilled(value)))).catch(
      (refused: unknown) => {
        setError(refused)
        setIsBusy(false)
      },
    )
  }
  return (
    <FormDialog
      title={title}
      above={above && <p className={css.hint}>{above}</p>}
      fields={fields}
      sections={[]}
      values={values}
      error={error ?? described.error ?? undefined}
      isBusy={isBusy}
      isChanged={Object.values(values).some(isFilled)}
      submit={submit}
      onChange={(alias, value) => setValues((now) => ({ ...now, [alias]: value }))}
      onSubmit={save}
      onDone={onDone}
    />
  )
}

export function MakeRepository({ onMade, onDone }: { onMade?: (id: number) => void; onDone: () => void }) {
  return (
    <RepositoryForm
      title={t('repositories.import')}
      submit={t('import')}
      above={t('repositories.hint')}
      send={async (body) => {
        const { data } = await call<Instance>('POST', REPOSITORIES, { body })
        say(t('repositories.importing'))
        onMade?.(Number(data.id))
        onDone()
        await invalidateRepository()
      }}
      onDone={onDone}
    />
  )
}

export function ImportAgain({ repository, onDone }: { repository: Instance; onDone: () => void }) {
  const { id, repository_url } = repository
  return (
    <RepositoryForm
      title={t('repositories.import-again-one', { name: `${repository_url}` })}
      submit={t('repositories.import-again')}
      above={t('repositories.import-again.hint')}
      names={['username', 'token']}
      send={async (body) => {
        await call('POST', `${REPOSITORIES}${id}/import/`, { body })
        say(t('repositories.importing'))
        onDone()
        await invalidateRepository()
      }}
      onDone={onDone}
    />
  )
}

// A topic and a database for the probes of taskctl evidence run, and the right to use
// them for whoever runs it. The probes write wrong stock on purpose, so nothing of the
// rest is theirs.
param namespaceName string
param accountName string
param capacity string
param maxThroughput int
param operatorPrincipalId string

resource namespace 'Microsoft.ServiceBus/namespaces@2026-01-01' existing = {
  name: namespaceName
}

resource evidence 'Microsoft.ServiceBus/namespaces/topics@2026-01-01' = {
  parent: namespace
  name: 'evidence'
  properties: {
    defaultMessageTimeToLive: 'PT1H'
    requiresDuplicateDetection: false
  }
}

resource probes 'Microsoft.ServiceBus/namespaces/topics/subscriptions@2026-01-01' = {
  parent: evidence
  name: 'probes'
  properties: {
    // Short: the probes wait for a killed process to lose it.
    lockDuration: 'PT5S'
    maxDeliveryCount: 10
    defaultMessageTimeToLive: 'PT1H'
    deadLetteringOnMessageExpiration: false
    requiresSession: false
  }
}

var sender = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '69a216fc-b8fb-44d8-bc22-1f3c2cd27a39')
var receiver = subscriptionResourceId('Microsoft.Authorization/roleDefinitions', '4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0')

resource operatorSends 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: evidence
  name: guid(evidence.id, operatorPrincipalId, sender)
  properties: { principalId: operatorPrincipalId, roleDefinitionId: sender }
}

resource operatorReceives 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: probes
  name: guid(probes.id, operatorPrincipalId, receiver)
  properties: { principalId: operatorPrincipalId, roleDefinitionId: receiver }
}

resource account 'Microsoft.DocumentDB/databaseAccounts@2026-03-15' existing = {
  name: accountName
}

resource database 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases@2026-03-15' = {
  parent: account
  name: 'oneeffect-evidence'
  properties: {
    resource: { id: 'oneeffect-evidence' }
  }
}

var throughput = capacity == 'serverless' ? {} : { autoscaleSettings: { maxThroughput: maxThroughput } }

resource claims 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2026-03-15' = {
  parent: database
  name: 'claims'
  properties: {
    resource: {
      id: 'claims'
      partitionKey: { paths: ['/id'], kind: 'Hash', version: 2 }
      defaultTtl: -1
      indexingPolicy: {
        automatic: true
        indexingMode: 'consistent'
        includedPaths: []
        excludedPaths: [{ path: '/*' }]
      }
    }
    options: throughput
  }
}

resource executions 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2026-03-15' = {
  parent: database
  name: 'executions'
  properties: {
    resource: {
      id: 'executions'
      partitionKey: { paths: ['/executionId'], kind: 'Hash', version: 2 }
      defaultTtl: 7776000
      indexingPolicy: {
        automatic: true
        indexingMode: 'consistent'
        includedPaths: [{ path: '/kind/?' }, { path: '/status/?' }]
        excludedPaths: [{ path: '/*' }]
      }
    }
    options: throughput
  }
}

resource inventory 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2026-03-15' = {
  parent: database
  name: 'inventory'
  properties: {
    resource: {
      id: 'inventory'
      partitionKey: { paths: ['/sku'], kind: 'Hash', version: 2 }
      defaultTtl: -1
      indexingPolicy: {
        automatic: true
        indexingMode: 'consistent'
        includedPaths: []
        excludedPaths: [{ path: '/*' }]
      }
    }
    options: throughput
  }
}

resource webhooks 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2026-03-15' = {
  parent: database
  name: 'webhooks'
  properties: {
    resource: {
      id: 'webhooks'
      partitionKey: { paths: ['/resource'], kind: 'Hash', version: 2 }
      defaultTtl: -1
      indexingPolicy: {
        automatic: true
        indexingMode: 'consistent'
        includedPaths: []
        excludedPaths: [{ path: '/*' }]
      }
    }
    options: throughput
  }
}

resource operatorWrites 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2026-03-15' = {
  parent: account
  name: guid(account.id, operatorPrincipalId, 'evidence')
  properties: {
    principalId: operatorPrincipalId
    roleDefinitionId: '${account.id}/sqlRoleDefinitions/00000000-0000-0000-0000-000000000002'
    scope: '${account.id}/dbs/oneeffect-evidence'
  }
  dependsOn: [database]
}

// Target A: the three processes as container apps, and a collector for what they
// tell of themselves.
param environmentName string
param appPrefix string
param location string
param tags object
param subnetId string
param workspaceId string
@secure()
param insightsConnectionString string
param registryServer string
param workerIdentityId string
param workerClientId string
param orchestratorIdentityId string
param orchestratorClientId string
param projectorIdentityId string
param projectorClientId string
param scalerIdentityId string
param serviceBusName string
param serviceBusHost string
param cosmosEndpoint string
param oidcIssuer string
param oidcAudience string
param oidcClient string
@secure()
param oidcClientSecret string
param oidcScope string
param pageUrl string
param crmUrl string
param printUrl string
param webhookSource string
@secure()
param webhookSecret string
param workerImage string
param orchestratorImage string
param projectorImage string

// Runs until azd deploy has built ours. It has no probe of ours, and takes no task.
var placeholder = 'mcr.microsoft.com/k8se/quickstart:latest'
var collectorName = '${appPrefix}collector'
var webhookVariable = 'WEBHOOK_SECRET_${toUpper(replace(webhookSource, '-', '_'))}'

var workerEnvironment = [
  { name: 'AZURE_TOKEN_CREDENTIALS', value: 'ManagedIdentityCredential' }
  { name: 'AZURE_CLIENT_ID', value: workerClientId }
  { name: 'ONEEFFECT_WORKER_SERVICEBUS_NAMESPACE', value: serviceBusHost }
  { name: 'ONEEFFECT_WORKER_COSMOS_ENDPOINT', value: cosmosEndpoint }
  { name: 'ONEEFFECT_WORKER_LOCK', value: '5m' }
  { name: 'ONEEFFECT_WORKER_GRACE', value: '90s' }
  { name: 'ONEEFFECT_WORKER_MAX_DELIVERY', value: '10' }
  { name: 'ONEEFFECT_WORKER_PROBES', value: '0.0.0.0:8086' }
  { name: 'CRM_URL', value: crmUrl }
  { name: 'PRINT_URL', value: printUrl }
  { name: 'GOMEMLIMIT', value: '900MiB' }
  { name: 'OTEL_EXPORTER_OTLP_ENDPOINT', value: 'http://${collectorName}' }
  { name: 'OTEL_EXPORTER_OTLP_PROTOCOL', value: 'http/protobuf' }
  { name: 'OTEL_TRACES_SAMPLER', value: 'parentbased_traceidratio' }
  { name: 'OTEL_TRACES_SAMPLER_ARG', value: '0.1' }
]

var orchestratorEnvironment = [
  { name: 'AZURE_TOKEN_CREDENTIALS', value: 'ManagedIdentityCredential' }
  { name: 'AZURE_CLIENT_ID', value: orchestratorClientId }
  { name: 'ONEEFFECT_ORCHESTRATOR_SERVICEBUS_NAMESPACE', value: serviceBusHost }
  { name: 'ONEEFFECT_ORCHESTRATOR_COSMOS_ENDPOINT', value: cosmosEndpoint }
  { name: 'ONEEFFECT_ORCHESTRATOR_LOCK', value: '5m' }
  { name: 'ONEEFFECT_ORCHESTRATOR_GRACE', value: '90s' }
  { name: 'ONEEFFECT_ORCHESTRATOR_LISTEN', value: '0.0.0.0:8080' }
  { name: 'ONEEFFECT_ORCHESTRATOR_OIDC_ISSUER', value: oidcIssuer }
  { name: 'ONEEFFECT_ORCHESTRATOR_OIDC_AUDIENCE', value: oidcAudience }
  { name: 'ONEEFFECT_ORCHESTRATOR_OIDC_CLIENT', value: oidcClient }
  { name: 'ONEEFFECT_ORCHESTRATOR_OIDC_SCOPE', value: oidcScope }
  { name: 'ONEEFFECT_ORCHESTRATOR_PAGE_URL', value: empty(pageUrl) ? 'https://${appPrefix}orchestrator.${environment.properties.defaultDomain}' : pageUrl }
  { name: 'GOMEMLIMIT', value: '900MiB' }
  { name: 'OTEL_EXPORTER_OTLP_ENDPOINT', value: 'http://${collectorName}' }
  { name: 'OTEL_EXPORTER_OTLP_PROTOCOL', value: 'http/protobuf' }
  { name: 'OTEL_TRACES_SAMPLER', value: 'parentbased_traceidratio' }
  { name: 'OTEL_TRACES_SAMPLER_ARG', value: '0.1' }
]

var projectorEnvironment = [
  { name: 'AZURE_TOKEN_CREDENTIALS', value: 'ManagedIdentityCredential' }
  { name: 'AZURE_CLIENT_ID', value: projectorClientId }
  { name: 'ONEEFFECT_PROJECTOR_SERVICEBUS_NAMESPACE', value: serviceBusHost }
  { name: 'ONEEFFECT_PROJECTOR_COSMOS_ENDPOINT', value: cosmosEndpoint }
  { name: 'ONEEFFECT_PROJECTOR_LOCK', value: '5m' }
  { name: 'ONEEFFECT_PROJECTOR_GRACE', value: '90s' }
  { name: 'ONEEFFECT_PROJECTOR_LISTEN', value: '0.0.0.0:8083' }
  { name: 'ONEEFFECT_PROJECTOR_RESERVATION_TTL', value: '336h' }
  { name: 'GOMEMLIMIT', value: '900MiB' }
  { name: 'OTEL_EXPORTER_OTLP_ENDPOINT', value: 'http://${collectorName}' }
  { name: 'OTEL_EXPORTER_OTLP_PROTOCOL', value: 'http/protobuf' }
  { name: 'OTEL_TRACES_SAMPLER', value: 'parentbased_traceidratio' }
  { name: 'OTEL_TRACES_SAMPLER_ARG', value: '0.1' }
]

var workerProbes = [
  { type: 'Startup', httpGet: { path: '/livez', port: 8086 }, periodSeconds: 2, failureThreshold: 10 }
  { type: 'Liveness', httpGet: { path: '/livez', port: 8086 }, periodSeconds: 10, failureThreshold: 6 }
  { type: 'Readiness', httpGet: { path: '/readyz', port: 8086 }, periodSeconds: 10, timeoutSeconds: 3, failureThreshold: 3 }
]

var orchestratorProbes = [
  { type: 'Startup', httpGet: { path: '/livez', port: 8080 }, periodSeconds: 2, failureThreshold: 10 }
  { type: 'Liveness', httpGet: { path: '/livez', port: 8080 }, periodSeconds: 10, failureThreshold: 6 }
  { type: 'Readiness', httpGet: { path: '/readyz', port: 8080 }, periodSeconds: 10, timeoutSeconds: 3, failureThreshold: 3 }
]

var projectorProbes = [
  { type: 'Startup', httpGet: { path: '/livez', port: 8083 }, periodSeconds: 2, failureThreshold: 10 }
  { type: 'Liveness', httpGet: { path: '/livez', port: 8083 }, periodSeconds: 10, failureThreshold: 6 }
  { type: 'Readiness', httpGet: { path: '/readyz', port: 8083 }, periodSeconds: 10, timeoutSeconds: 3, failureThreshold: 3 }
]

resource environment 'Microsoft.App/managedEnvironments@2026-01-01' = {
  name: environmentName
  location: location
  tags: tags
  properties: {
    appLogsConfiguration: { destination: 'azure-monitor' }
    vnetConfiguration: empty(subnetId) ? null : { infrastructureSubnetId: subnetId, internal: false }
    workloadProfiles: [
      { name: 'Consumption', workloadProfileType: 'Consumption' }
    ]
  }
}

resource diagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  scope: environment
  name: 'workspace'
  properties: {
    workspaceId: workspaceId
    logs: [
      { category: 'ContainerAppConsoleLogs', enabled: true }
      { category: 'ContainerAppSystemLogs', enabled: true }
    ]
  }
}

// The managed OpenTelemetry agent does not take metrics to Application Insights;
// this collector does.
resource collector 'Microsoft.App/containerApps@2026-01-01' = {
  name: collectorName
  location: location
  tags: tags
  properties: {
    environmentId: environment.id
    configuration: {
      activeRevisionsMode: 'Single'
      secrets: [
        { name: 'connection-string', value: insightsConnectionString }
        { name: 'configuration', value: loadTextContent('../collector/config.yaml') }
      ]
      // Within the environment, under its name: http on port 80.
      ingress: {
        external: false
        targetPort: 4318
        transport: 'http'
        allowInsecure: true
      }
    }
    template: {
      containers: [
        {
          name: 'collector'
          image: 'docker.io/otel/opentelemetry-collector-contrib:0.161.0'
          args: ['--config=/etc/collector/config.yaml']
          env: [
            { name: 'APPLICATIONINSIGHTS_CONNECTION_STRING', secretRef: 'connection-string' }
            { name: 'GOMEMLIMIT', value: '900MiB' }
          ]
          resources: { cpu: json('0.5'), memory: '1Gi' }
          volumeMounts: [
            { volumeName: 'configuration', mountPath: '/etc/collector' }
          ]
        }
      ]
      scale: { minReplicas: 1, maxReplicas: 3 }
      volumes: [
        {
          name: 'configuration'
          storageType: 'Secret'
          secrets: [
            { secretRef: 'configuration', path: 'config.yaml' }
          ]
        }
      ]
    }
  }
}

resource worker 'Microsoft.App/containerApps@2026-01-01' = {
  name: '${appPrefix}worker'
  location: location
  tags: union(tags, { 'azd-service-name': 'worker' })
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${workerIdentityId}': {}
      '${scalerIdentityId}': {}
    }
  }
  properties: {
    environmentId: environment.id
    configuration: {
      activeRevisionsMode: 'Single'
      // The scaler's identity is for the platform: no container gets a token of it.
      identitySettings: [
        { identity: workerIdentityId, lifecycle: 'Main' }
        { identity: scalerIdentityId, lifecycle: 'None' }
      ]
      registries: [
        { server: registryServer, identity: workerIdentityId }
      ]
      secrets: []
    }
    template: {
      // Above the grace that the process is told, which is above the drain.
      terminationGracePeriodSeconds: 120
      containers: [
        {
          name: 'worker'
          image: empty(workerImage) ? placeholder : workerImage
          env: workerEnvironment
          probes: empty(workerImage) ? [] : workerProbes
          resources: { cpu: json('0.5'), memory: '1Gi' }
        }
      ]
      scale: {
        minReplicas: empty(workerImage) ? 0 : 1
        maxReplicas: 20
        pollingInterval: 30
        // Locked and scheduled messages are in no count: wait until none can be left.
        cooldownPeriod: 600
        rules: [
          {
            name: 'tasks'
            custom: {
              type: 'azure-servicebus'
              metadata: { namespace: serviceBusName, queueName: 'tasks', messageCount: '40' }
              identity: scalerIdentityId
            }
          }
        ]
      }
    }
  }
}

resource orchestrator 'Microsoft.App/containerApps@2026-01-01' = {
  name: '${appPrefix}orchestrator'
  location: location
  tags: union(tags, { 'azd-service-name': 'orchestrator' })
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${orchestratorIdentityId}': {}
      '${scalerIdentityId}': {}
    }
  }
  properties: {
    environmentId: environment.id
    configuration: {
      activeRevisionsMode: 'Single'
      // The scaler's identity is for the platform: no container gets a token of it.
      identitySettings: [
        { identity: orchestratorIdentityId, lifecycle: 'Main' }
        { identity: scalerIdentityId, lifecycle: 'None' }
      ]
      registries: [
        { server: registryServer, identity: orchestratorIdentityId }
      ]
      secrets: empty(oidcClientSecret) ? [] : [{ name: 'sign-in', value: oidcClientSecret }]
      ingress: {
        external: true
        targetPort: empty(orchestratorImage) ? 80 : 8080
        transport: 'http'
        allowInsecure: false
      }
    }
    template: {
      // Above the grace that the process is told, which is above the drain.
      terminationGracePeriodSeconds: 120
      containers: [
        {
          name: 'orchestrator'
          image: empty(orchestratorImage) ? placeholder : orchestratorImage
          env: empty(oidcClientSecret) ? orchestratorEnvironment : concat(orchestratorEnvironment, [{ name: 'OIDC_CLIENT_SECRET', secretRef: 'sign-in' }])
          probes: empty(orchestratorImage) ? [] : orchestratorProbes
          resources: { cpu: json('0.5'), memory: '1Gi' }
        }
      ]
      scale: {
        minReplicas: empty(orchestratorImage) ? 0 : 2
        maxReplicas: 10
        pollingInterval: 30
        // Locked and scheduled messages are in no count: wait until none can be left.
        cooldownPeriod: 600
        rules: [
          {
            name: 'task-events'
            custom: {
              type: 'azure-servicebus'
              metadata: { namespace: serviceBusName, topicName: 'task-events', subscriptionName: 'orchestrator', messageCount: '200' }
              identity: scalerIdentityId
            }
          }
        ]
      }
    }
  }
}

resource projector 'Microsoft.App/containerApps@2026-01-01' = {
  name: '${appPrefix}projector'
  location: location
  tags: union(tags, { 'azd-service-name': 'projector' })
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${projectorIdentityId}': {}
      '${scalerIdentityId}': {}
    }
  }
  properties: {
    environmentId: environment.id
    configuration: {
      activeRevisionsMode: 'Single'
      // The scaler's identity is for the platform: no container gets a token of it.
      identitySettings: [
        { identity: projectorIdentityId, lifecycle: 'Main' }
        { identity: scalerIdentityId, lifecycle: 'None' }
      ]
      registries: [
        { server: registryServer, identity: projectorIdentityId }
      ]
      secrets: empty(webhookSource) ? [] : [{ name: 'webhook', value: webhookSecret }]
      ingress: {
        external: true
        targetPort: empty(projectorImage) ? 80 : 8083
        transport: 'http'
        allowInsecure: false
      }
    }
    template: {
      // Above the grace that the process is told, which is above the drain.
      terminationGracePeriodSeconds: 120
      containers: [
        {
          name: 'projector'
          image: empty(projectorImage) ? placeholder : projectorImage
          env: empty(webhookSource) ? projectorEnvironment : concat(projectorEnvironment, [{ name: webhookVariable, secretRef: 'webhook' }])
          probes: empty(projectorImage) ? [] : projectorProbes
          resources: { cpu: json('0.5'), memory: '1Gi' }
        }
      ]
      scale: {
        minReplicas: empty(projectorImage) ? 0 : 1
        maxReplicas: 10
        pollingInterval: 30
        // Locked and scheduled messages are in no count: wait until none can be left.
        cooldownPeriod: 600
        rules: [
          {
            name: 'reservations'
            custom: {
              type: 'azure-servicebus'
              metadata: { namespace: serviceBusName, topicName: 'reservations', subscriptionName: 'inventory', messageCount: '200' }
              identity: scalerIdentityId
            }
          }
        ]
      }
    }
  }
}

output apiUrl string = 'https://${orchestrator.properties.configuration.ingress.fqdn}'
output webhooksUrl string = 'https://${projector.properties.configuration.ingress.fqdn}/webhooks'
